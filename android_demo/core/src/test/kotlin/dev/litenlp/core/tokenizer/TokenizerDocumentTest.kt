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
        assertOther("pre_tokenizer.add_prefix_space: false, found true") { getJSONObject("pre_tokenizer").put("add_prefix_space", true) }
        assertOther("pre_tokenizer.use_regex: true, found false") { getJSONObject("pre_tokenizer").put("use_regex", false) }
        assertOther("added_tokens: a list of 0, found a list of 1") { getJSONArray("added_tokens").put(JSONObject().put("content", "<x>")) }
        assertOther("post_processor: null, found an object") { put("post_processor", JSONObject().put("type", "ByteLevel")) }
        assertOther("truncation: null, found an object") { put("truncation", JSONObject().put("max_length", 3)) }
        assertOther("Prepend") { normalizers().put(JSONObject().put("type", "StripAccents")) }
        assertOther("Prepend") { getJSONObject("normalizer").put("normalizers", JSONArray()) }
        assertOther("Prepend") { normalizers().getJSONObject(0).put("prepend", "_") }
        assertOther("Prepend") {
            getJSONObject("normalizer").put("normalizers", JSONArray().put(JSONObject().put("type", "NFD")).put(normalizers().get(0)))
        }
        assertOther("decoder.decoders: a list of 2, found a list of 1") { getJSONObject("decoder").getJSONArray("decoders").remove(1) }
        assertOther("decoder.decoders.1.start: 1, found 2") {
            getJSONObject("decoder").getJSONArray("decoders").getJSONObject(1).put("start", 2)
        }
        assertOther("what the merges make, with ids in this order") { swap("<pad>", "<s>") }
        assertOther("makes </s>") {
            for (pair in listOf(listOf("<", "/"), listOf("</", "s"), listOf("</s", ">"))) merges().put(JSONArray(pair))
        }
    }

    @Test
    fun everyOptionIsThatOfTheTraining() {
        val options = listOf(
            "dropout" to 0.1, "dropout" to 0.0, "ignore_merges" to true, "end_of_word_suffix" to "</w>", "end_of_word_suffix" to "",
            "continuing_subword_prefix" to "##", "unk_token" to "<pad>", "fuse_unk" to true, "byte_fallback" to 0, "more" to 1,
        )
        for ((name, value) in options) assertOther(name) { getJSONObject("model").put(name, value) }
        for (name in listOf("trim_offsets", "use_regex")) assertOther(name) { getJSONObject("pre_tokenizer").put(name, JSONObject.NULL) }
        assertOther("version: 1.0, found 2.0") { put("version", "2.0") }
        assertOther("no key more, found one") { put("more", 1) }
        assertOther("padding, found none") { remove("padding") }
        assertOther("Prepend") { getJSONObject("normalizer").put("more", 1) }
    }

    @Test
    fun theVocabularyIsWhatTheMergesMake() {
        assertOther("other types") { vocabulary().put("!", 420); this }
        assertOther("other types") { vocabulary().put("!", 5); this }
        assertOther("other types") { swap("!", "#") }
        assertOther("other types") { vocabulary().put("!!!!", vocabulary().remove("!")); this }
        assertOther("other types") { vocabulary().put("more", size()) }
        assertDamaged("ids that are integers") { vocabulary().put("!", "3"); this }
        assertDamaged("ids that are integers") { vocabulary().put("!", 3.5); this }
        assertDamaged("which the vocabulary lacks") { merges().put(JSONArray(listOf("!", "\u0120qqq"))); this }
        assertOther("other types") { merges().put(JSONArray(listOf("!", "\u00FF"))); this }
        assertOther("one of <s>") { merges().put(JSONArray(listOf("<s>", "!"))); this }
        assertDamaged("is not a pair") { merges().put(JSONArray(listOf("!"))); this }
        assertDamaged("is not a pair") { merges().put("! !"); this }
        assertDamaged("is not a pair") { merges().put(7); this }
    }

    @Test
    fun noTypeIsLongerThanTheLimit() {
        assertDamaged("makes more than 4096 bytes") {
            val merges = JSONArray()
            var part = "a"
            while (part.length <= 4096) {
                merges.put(JSONArray(listOf(part, part)))
                part += part
            }
            getJSONObject("model").put("merges", merges)
        }
    }

    @Test
    fun documentsBeyondTheLimitsAreDamaged() {
        val types = (0..TokenizerDocument.MAX_TYPES).joinToString(",") { "\"$it\":0" }
        assertRefused(Problem.ALTERED, "at most ${TokenizerDocument.MAX_TYPES} types", "{\"model\":{\"vocab\":{$types}}}".toByteArray())
        assertRefused(Problem.ALTERED, "values", ("[" + "[],".repeat(3_000_000) + "[]]").toByteArray())
        assertRefused(Problem.ALTERED, "bytes", ByteArray(TokenizerDocument.MAX_BYTES + 1) { 32 })
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
