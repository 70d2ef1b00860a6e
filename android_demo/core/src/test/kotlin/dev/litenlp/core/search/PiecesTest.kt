package dev.litenlp.core.search

import dev.litenlp.core.tokenizer.GoldenVectors
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** Sentences, pieces and lines are those that Python makes. */
class PiecesTest {
    private val counters: Map<String, (String) -> Int> = mapOf(
        "tokens" to { text -> tokenizer.encode(text).size },
        "characters" to { text -> text.codePointCount(0, text.length) },
        "bytes" to { text -> text.toByteArray(Charsets.UTF_8).size },
    )

    @Test
    fun sentencesAreThoseOfPython() {
        val rows = GoldenVectors.rows(vectors.getJSONArray("sentences"))
        assertTrue(rows.size > 100)
        for (row in rows) {
            val text = row.getString(0)
            assertEquals(GoldenVectors.strings(row.getJSONArray(1)), splitSentences(text)) { GoldenVectors.show(text) }
        }
    }

    @Test
    fun piecesAreThoseOfPython() {
        val cases = vectors.getJSONArray("pieces")
        assertTrue(cases.length() > 300)
        for (index in 0 until cases.length()) {
            val case = cases.getJSONObject(index)
            val text = case.getString("text")
            val limit = case.getInt("max_tokens")
            val pieces = splitText(text, limit, counters.getValue(case.getString("counter")))
            assertEquals(GoldenVectors.strings(case.getJSONArray("pieces")), pieces) {
                "${case.getString("counter")}, $limit: ${GoldenVectors.show(text)}"
            }
        }
    }

    @Test
    fun linesAreJoinedAsInPython() {
        val rows = GoldenVectors.rows(vectors.getJSONArray("joined_lines"))
        assertTrue(rows.size > 10)
        for (row in rows) {
            assertEquals(row.getString(1), PythonText.joinLines(row.getString(0))) { GoldenVectors.show(row.getString(0)) }
        }
        assertEquals("a b  c ", PythonText.joinLines("a\r\nb\n\rc\u2028\u0085"))
    }

    @Test
    fun blankIsWhatPythonCallsBlank() {
        val rows = GoldenVectors.rows(vectors.getJSONArray("blank"))
        assertTrue(rows.any { it.getBoolean(1) } && rows.any { !it.getBoolean(1) })
        for (row in rows) {
            assertEquals(row.getBoolean(1), PythonText.strip(row.getString(0)).isEmpty()) { GoldenVectors.show(row.getString(0)) }
        }
    }

    @Test
    fun aTextOfTenThousandWordsIsCutInTime() {
        val words = List(10_000) { if (it % 17 == 0) "Wort$it." else "word" }.joinToString(" ")
        val pieces = splitText(words, 200) { tokenizer.encode(it).size }
        assertTrue(pieces.all { tokenizer.encode(it).size <= 200 })
        assertEquals(words, pieces.joinToString(" "))
    }

    @Test
    fun noMoreThanABlockIsEverCounted() {
        val texts = listOf("x".repeat(1_000_000), "\u732B".repeat(300_000), "a" + " ".repeat(1_000_000) + "b", "ab ".repeat(300_000))
        for (text in texts) {
            var counted = 0L
            val pieces = splitText(text, 200) { piece ->
                assertTrue(piece.codePointCount(0, piece.length) <= BLOCK_CHARACTERS)
                counted += piece.length
                piece.length
            }
            assertTrue(pieces.all { it.length <= STRETCH_TOKENS })
            // Each halving of a block counts it once more, and there are at most as many as a block has twos in it.
            assertTrue(counted <= 13L * text.length) { "$counted of ${text.length}" }
            assertEquals(text.replace(" ", ""), pieces.joinToString("").replace(" ", ""))
        }
    }

    private companion object {
        val tokenizer = GoldenVectors.tokenizer("shipped")
        val vectors: JSONObject = GoldenVectors.read("pieces")
    }
}
