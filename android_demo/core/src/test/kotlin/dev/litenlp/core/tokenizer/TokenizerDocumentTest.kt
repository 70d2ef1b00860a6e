package dev.litenlp.core.tokenizer

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

/** A `tokenizer.json` that is not what the training makes is refused, and the message says why. */
class TokenizerDocumentTest {
    private val content = GoldenVectors.tokenizerJson("plain")

    @ParameterizedTest
    @ValueSource(strings = ["", "{", "[]", "null", "{}", "{\"model\": 3}", "\u0000", "{\"model\": {\"type\": \"BPE\"}}"])
    fun whatIsNoTokenizerIsDamaged(text: String) = assertRefused(Problem.ALTERED, "damaged", text.toByteArray())

    @Test
    fun aCutFileIsDamaged() {
        for (size in 0 until content.size - 2 step 997) assertRefused(Problem.ALTERED, "damaged", content.copyOf(size))
        assertRefused(Problem.ALTERED, "UTF-8", content.copyOf().also { it[content.size / 2] = -1 })
        assertRefused(Problem.ALTERED, "levels", "[".repeat(90_000).toByteArray())
    }

    @Test
    fun anotherKindIsNamed() {
        assertOther("Unigram") { getJSONObject("model").put("type", "Unigram") }
        assertOther("Whitespace") { getJSONObject("pre_tokenizer").put("type", "Whitespace") }
        assertOther("adds no space") { getJSONObject("pre_tokenizer").put("add_prefix_space", true) }
        assertOther("GPT-2's pattern") { getJSONObject("pre_tokenizer").put("use_regex", false) }
        assertOther("no added_tokens") { getJSONArray("added_tokens").put(JSONObject().put("content", "<x>")) }
        assertOther("no post_processor") { put("post_processor", JSONObject().put("type", "ByteLevel")) }
        assertOther("no truncation") { put("truncation", JSONObject().put("max_length", 3)) }
        assertOther("Prepend") { normalizers().put(JSONObject().put("type", "StripAccents")) }
        assertOther("Prepend") { getJSONObject("normalizer").put("normalizers", JSONArray()) }
        assertOther("Prepend") { normalizers().getJSONObject(0).put("prepend", "_") }
        assertOther("Prepend") {
            getJSONObject("normalizer").put("normalizers", JSONArray().put(JSONObject().put("type", "NFD")).put(normalizers().get(0)))
        }
        assertOther("decoders") { getJSONObject("decoder").getJSONArray("decoders").remove(1) }
        assertOther("takes one space away") {
            getJSONObject("decoder").getJSONArray("decoders").getJSONObject(1).put("start", 2)
        }
        assertOther("special tokens") { swap("<pad>", "<s>") }
        assertOther("makes </s>") { vocabulary().put("</", size()).put("s>", size()); merges().put(JSONArray(listOf("</", "s>"))) }
    }

    @Test
    fun optionsThatChangeTheMergesAreUnsupported() {
        for ((name, value) in listOf("dropout" to 0.1, "ignore_merges" to true, "end_of_word_suffix" to "</w>")) {
            val edited = edited { getJSONObject("model").put(name, value) }
            assertRefused(Problem.UNSUPPORTED, name, edited)
        }
        Tokenizer.fromJson(edited { getJSONObject("model").put("dropout", 0.0).put("continuing_subword_prefix", "") })
    }

    @Test
    fun damagedVocabulariesAndMergesAreNamed() {
        assertDamaged("ids that are not 0 to 419") { vocabulary().put("!", 420); this }
        assertDamaged("ids that are not 0 to 419") { vocabulary().put("!", 5); this }
        assertDamaged("ids that are not 0 to 419") { vocabulary().put("!", "3"); this }
        assertDamaged("no token for 1 of the 256 bytes") { vocabulary().put("!!!!", vocabulary().remove("!")); this }
        assertDamaged("which the vocabulary lacks") { merges().put(JSONArray(listOf("!", "\u0120qqq"))); this }
        assertDamaged("which the vocabulary lacks") { merges().put(JSONArray(listOf("!", "\u00FF"))); this }
        assertDamaged("is not a pair") { merges().put(JSONArray(listOf("!"))); this }
        assertDamaged("is not a pair") { merges().put("! ! !"); this }
        assertDamaged("is not a pair") { merges().put(7); this }
    }

    @Test
    fun mergesInTheOldFormAreTheSame() {
        val old = edited {
            val pairs = GoldenVectors.rows(merges())
            getJSONObject("model").put("merges", JSONArray(pairs.map { "${it.getString(0)} ${it.getString(1)}" }))
        }
        val text = "A man's dog, \u00FCber 3 \u732B."
        assertArrayEquals(Tokenizer.fromJson(content).encode(text), Tokenizer.fromJson(old).encode(text))
    }

    private fun JSONObject.vocabulary() = getJSONObject("model").getJSONObject("vocab")

    private fun JSONObject.size() = vocabulary().length()

    private fun JSONObject.merges() = getJSONObject("model").getJSONArray("merges")

    private fun JSONObject.normalizers() = getJSONObject("normalizer").getJSONArray("normalizers")

    private fun JSONObject.swap(one: String, other: String): JSONObject {
        val vocabulary = vocabulary()
        val id = vocabulary.getInt(one)
        vocabulary.put(one, vocabulary.getInt(other)).put(other, id)
        return vocabulary
    }

    private fun edited(edit: JSONObject.() -> Any?): ByteArray {
        val document = JSONObject(content.toString(Charsets.UTF_8))
        document.edit()
        return document.toString().toByteArray()
    }

    private fun assertOther(part: String, edit: JSONObject.() -> Any?) = assertRefused(Problem.OTHER_TOKENIZER, part, edited(edit))

    private fun assertDamaged(part: String, edit: JSONObject.() -> Any?) = assertRefused(Problem.ALTERED, part, edited(edit))

    private fun assertRefused(problem: Problem, part: String, content: ByteArray) {
        val error = assertThrows(LiteNlpException::class.java) { Tokenizer.fromJson(content) }
        assertEquals(problem, error.problem) { error.message }
        assertTrue("tokenizer.json: expected" in error.message && part in error.message) { error.message }
    }
}
