package dev.litenlp.core.tokenizer

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

/** The tokenizer gives what the Python one gives: everyday sentences, hostile texts, random ones, ids of no text. */
class GoldenTokenizerTest {
    @ParameterizedTest
    @ValueSource(strings = ["shipped", "plain", "lower", "nfc", "nfkc-lower"])
    fun textsGiveTheIdsOfPython(name: String) {
        val tokenizer = GoldenVectors.tokenizer(name)
        val rows = GoldenVectors.rows(vectorsOf(name).getJSONArray("texts"))
        assertTrue(rows.size > 300) { "expected hundreds of texts, found ${rows.size}" }
        for (row in rows) {
            val text = row.getString(0)
            val ids = GoldenVectors.integers(row.getJSONArray(1))
            val about = { "$name: ${GoldenVectors.show(text)}" }
            assertEquals(ids.toList(), tokenizer.encode(text).toList(), about)
            assertEquals(row.getString(2), tokenizer.decode(ids), about)
            if (isAsOldAsPython(text)) assertEquals(row.getDouble(3), tokenizer.unfamiliar(text), about)
        }
    }

    /** Whether Python, whose Unicode may be older than that of the library's regular expressions, knows all letters. */
    private fun isAsOldAsPython(text: String): Boolean {
        var index = 0
        while (index < text.length) {
            val codePoint = text.codePointAt(index)
            if (PreTokenizer.isLetter(codePoint) && codePoint !in pythonLetters) return false
            index += Character.charCount(codePoint)
        }
        return true
    }

    @Test
    fun fewTextsHaveLettersThatPythonLacks() {
        val texts = GoldenVectors.rows(vectorsOf("shipped").getJSONArray("texts")).map { it.getString(0) }
        assertTrue(texts.count { isAsOldAsPython(it) } > texts.size * 0.9)
    }

    @ParameterizedTest
    @ValueSource(strings = ["shipped", "plain", "lower", "nfc", "nfkc-lower"])
    fun idsOfNoTextGiveTheTextOfPython(name: String) {
        val tokenizer = GoldenVectors.tokenizer(name)
        val rows = GoldenVectors.rows(vectorsOf(name).getJSONArray("ids"))
        assertTrue(rows.size > 100) { "expected over a hundred sequences, found ${rows.size}" }
        for (row in rows) {
            val ids = GoldenVectors.integers(row.getJSONArray(0))
            assertEquals(row.getString(1), tokenizer.decode(ids)) { "$name: ${ids.toList()}" }
        }
    }

    @Test
    fun loneSurrogatesAreRefusedWithTheirPlace() {
        val tokenizer = GoldenVectors.tokenizer("plain")
        val texts = GoldenVectors.strings(vectors.getJSONArray("not_unicode"))
        assertEquals(5, texts.size)
        for (text in texts) {
            assertProblem(Problem.NOT_UNICODE) { tokenizer.encode(text) }
            assertProblem(Problem.NOT_UNICODE) { tokenizer.unfamiliar(text) }
        }
        // Counted in characters, as Python counts: the pair before it is one.
        val error = assertProblem(Problem.NOT_UNICODE) { tokenizer.encode("\uD83D\uDE00a\uDC0F!") }
        assertEquals("text: expected Unicode characters, found the lone surrogate U+DC0F at character 2", error.message)
    }

    @Test
    fun idsOutsideTheVocabularyAreRefused() {
        val tokenizer = GoldenVectors.tokenizer("plain")
        for (ids in GoldenVectors.rows(vectors.getJSONArray("outside"))) {
            assertProblem(Problem.OTHER_TOKENIZER) { tokenizer.decode(GoldenVectors.integers(ids)) }
        }
        val error = assertProblem(Problem.OTHER_TOKENIZER) { tokenizer.decode(intArrayOf(5, 420)) }
        assertEquals("token id: expected 0 to 419, found 420", error.message)
    }

    private fun assertProblem(problem: Problem, call: () -> Any): LiteNlpException {
        val error = assertThrows(LiteNlpException::class.java) { call() }
        assertEquals(problem, error.problem)
        return error
    }

    private companion object {
        val vectors = GoldenVectors.read("texts")

        val pythonLetters: Set<Int> =
            GoldenVectors.rows(GoldenVectors.read("characters").getJSONObject("python").getJSONArray("alpha"))
                .flatMapTo(HashSet()) { it.getInt(0)..it.getInt(1) }

        fun vectorsOf(name: String) = vectors.getJSONObject("tokenizers").getJSONObject(name)
    }
}
