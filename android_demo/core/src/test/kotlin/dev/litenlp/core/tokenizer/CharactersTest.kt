package dev.litenlp.core.tokenizer

import dev.litenlp.core.search.PythonText
import java.text.Normalizer
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The character tables against what Python says of every code point. */
class CharactersTest {
    private val pattern = characters.getJSONObject("pattern")
    private val python = characters.getJSONObject("python")

    @Test
    fun classesOfThePatternAreThoseOfTheLibrary() {
        val classes = listOf("a" to pattern.getJSONArray("letter"), "1" to pattern.getJSONArray("number"))
        for ((known, runs) in classes) {
            assertSet(runs) { PreTokenizer.wordEnd(known + text(it), 0) == known.length + Character.charCount(it) }
        }
        // White space stays together until the last of it.
        assertSet(pattern.getJSONArray("space")) {
            PreTokenizer.wordEnd("\t" + text(it) + "\t!", 0) == 1 + Character.charCount(it)
        }
    }

    @Test
    fun lettersAreAtLeastThoseOfPython() {
        // Python may have an older Unicode than the library's regular expressions; letters do not become anything else.
        val letters = setOf(python.getJSONArray("alpha"))
        assertTrue(letters.size > 130_000)
        assertEquals(emptyList<Int>(), letters.filterNot { PreTokenizer.isLetter(it) })
    }

    @Test
    fun whiteSpaceAndLineEndsAreThoseOfPython() {
        assertSet(python.getJSONArray("space")) { PythonText.isSpace(it) }
        assertSet(python.getJSONArray("line_end")) { PythonText.isLineEnd(it) }
    }

    @Test
    fun lowerCaseIsThatOfTheLibrary() = assertMapping("lower", Normalization(null, lowercase = true))

    @Test
    fun normalizationFormsAreThoseOfTheLibrary() {
        assertMapping("nfc", Normalization(Normalizer.Form.NFC, lowercase = false))
        assertMapping("nfkc", Normalization(Normalizer.Form.NFKC, lowercase = false))
    }

    @Test
    fun aSigmaIsLoweredWithoutALookAtItsNeighbours() {
        val lower = Normalization(null, lowercase = true)
        assertEquals("\u03B1\u03C3 i\u0307x", lower.apply("\u0391\u03A3 \u0130X"))
    }

    @Test
    fun normalizationKnowsNoMarksAfterUnicode9() {
        val nfc = Normalization(Normalizer.Form.NFC, lowercase = false)
        // U+1DF6 came with Unicode 10: a newer library puts U+0323, of a lower class, before it.
        assertEquals("a\u1DF6\u0323", nfc.apply("a\u1DF6\u0323"))
        // It stands between a letter and its accent too.
        assertEquals("e\u1DF6\u0301", nfc.apply("e\u1DF6\u0301"))
        assertEquals("\u1EC7", nfc.apply("e\u0302\u0323"))
        assertEquals("\uAC01", nfc.apply("\u1100\u1161\u11A8"))
    }

    private fun assertMapping(name: String, normalization: Normalization) {
        val mapping = characters.getJSONObject(name)
        assertTrue(mapping.length() > 1000)
        for (codePoint in codePoints()) {
            val expected = mapping.optString("%04X".format(codePoint), text(codePoint))
            assertEquals(expected, normalization.apply(text(codePoint))) { "$name of U+%04X".format(codePoint) }
        }
    }

    private fun assertSet(runs: JSONArray, holds: (Int) -> Boolean) {
        val expected = setOf(runs)
        for (codePoint in codePoints()) {
            assertEquals(codePoint in expected, holds(codePoint)) { "U+%04X".format(codePoint) }
        }
    }

    private fun setOf(runs: JSONArray): Set<Int> =
        GoldenVectors.rows(runs).flatMapTo(HashSet()) { it.getInt(0)..it.getInt(1) }

    private fun codePoints() = (0..0x10FFFF).asSequence().filter { it !in 0xD800..0xDFFF }

    private fun text(codePoint: Int) = String(Character.toChars(codePoint))

    private companion object {
        val characters: JSONObject = GoldenVectors.read("characters")
    }
}
