package dev.litenlp.core.tokenizer

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.search.SpecialTokens
import java.text.Normalizer
import org.json.JSONArray
import org.json.JSONException
import org.json.JSONObject

/**
 * Contents of a `tokenizer.json`, checked to be a tokenizer of the kind that this project trains.
 *
 * @property tokens Spelling of each token in the byte-level alphabet, by id.
 * @property byteTokens Id of the token of each byte.
 * @property merges Pairs of tokens.
 */
internal class TokenizerDocument private constructor(
    val normalization: Normalization,
    val tokens: Array<String>,
    val byteTokens: IntArray,
    val merges: Merges,
) {
    companion object {
        /** Largest document: a type and its merge take some sixty bytes. */
        const val MAX_BYTES = 64 shl 20

        /** Types of a vocabulary, and merges. */
        const val MAX_TYPES = 1 shl 19

        /** Bytes that one type spells, which bounds the text that an output of given length decodes to. */
        const val MAX_TOKEN_BYTES = 4096

        /** A value for each type and three for each merge, and the options. */
        private const val MAX_VALUES = MAX_TYPES + 3 * MAX_TYPES + 1000

        private val SPECIAL_SPELLINGS = listOf("<pad>", "<s>", "</s>")

        /** Everything that the training writes, but the normalizer, the vocabulary and the merges. */
        private val OUTLINE = Json.parseObject(
            """
            {"version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
             "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
             "post_processor": null,
             "decoder": {"type": "Sequence", "decoders": [
                {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
             "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                       "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false}}
            """.toByteArray(),
        )

        /**
         * Reads a document that is one that the training writes, to every key and value: an option that would change what the
         * tokenizer does is no detail that is passed over.
         *
         * @throws LiteNlpException `ALTERED` if the file is damaged, `OTHER_TOKENIZER` if it is of another kind or has other
         *   options.
         */
        fun parse(content: ByteArray): TokenizerDocument =
            try {
                read(parseJson(content))
            } catch (error: JsonSyntaxException) {
                throw damaged(error.message ?: "JSON that cannot be read", error)
            } catch (error: JSONException) {
                throw damaged(error.message ?: "JSON of another structure", error)
            }

        /** The document of a tokenizer of any kind, within the limits. */
        fun parseJson(content: ByteArray): JSONObject = Json.parseObject(content, MAX_BYTES, MAX_VALUES)

        /**
         * Ids by type of a document of any kind.
         *
         * @throws JSONException If it has none, or beyond the limits.
         */
        fun types(document: JSONObject): JSONObject {
            val types = document.getJSONObject("model").getJSONObject("vocab")
            if (types.length() > MAX_TYPES) throw JSONException("expected at most $MAX_TYPES types, found ${types.length()}")
            for (type in types.keys()) {
                if (types.opt(type) !is Int) throw JSONException("expected ids that are integers, found others")
            }
            return types
        }

        private fun read(document: JSONObject): TokenizerDocument {
            val vocabulary = types(document)
            val model = document.getJSONObject("model")
            val merges = model.opt("merges") as? JSONArray ?: throw damaged("no list of merges")
            if (merges.length() > MAX_TYPES) throw damaged("more than $MAX_TYPES merges")
            val normalization = readNormalization(document.opt("normalizer"))
            checkOptions(document, model)
            val ids = LinkedHashMap<String, Int>(2 * vocabulary.length())
            for (spelling in SPECIAL_SPELLINGS + ByteLevel.alphabet.sorted().map(Char::toString)) ids[spelling] = ids.size
            val pairs = readMerges(merges, ids)
            if (vocabulary.length() != ids.size || ids.any { (type, id) -> vocabulary.opt(type) != id }) {
                throw other("$SPECIAL_SPELLINGS, the 256 bytes and what the merges make, with ids in this order", "other types")
            }
            val byteTokens = IntArray(256) { ids.getValue(ByteLevel.alphabet[it].toString()) }
            return TokenizerDocument(normalization, ids.keys.toTypedArray(), byteTokens, pairs)
        }

        /** Compares the document with [OUTLINE]; normalizer, vocabulary and merges are left to others. */
        private fun checkOptions(document: JSONObject, model: JSONObject) {
            val rest = JSONObject()
            for (key in document.keys()) if (key != "normalizer") rest.put(key, document.get(key))
            val options = JSONObject()
            for (key in model.keys()) if (key != "vocab" && key != "merges") options.put(key, model.get(key))
            rest.put("model", options)
            firstDifference(OUTLINE, rest, "")?.let { (expected, found) -> throw other(expected, found) }
        }

        /** The first place where [found] is not [expected], to the type of every value: what was expected and found there. */
        private fun firstDifference(expected: Any?, found: Any?, path: String): Pair<String, String>? {
            val where = path.removePrefix(".").ifEmpty { "document" }
            when (expected) {
                is JSONObject -> {
                    if (found !is JSONObject) return Pair("$where: an object", shown(found))
                    found.keys().asSequence().find { !expected.has(it) }?.let { return Pair("$where: no key ${shorten(it)}", "one") }
                    return expected.keys().asSequence().mapNotNull { key ->
                        if (found.has(key)) firstDifference(expected.get(key), found.get(key), "$path.$key") else Pair("$where: $key", "none")
                    }.firstOrNull()
                }
                is JSONArray -> {
                    if (found !is JSONArray || found.length() != expected.length()) return Pair("$where: ${shown(expected)}", shown(found))
                    return (0 until expected.length()).asSequence()
                        .mapNotNull { firstDifference(expected.get(it), found.get(it), "$path.$it") }.firstOrNull()
                }
                else -> return if (expected == found) null else Pair("$where: ${shown(expected)}", shown(found))
            }
        }

        private fun shown(value: Any?): String = when (value) {
            is JSONObject -> "an object"
            is JSONArray -> "a list of ${value.length()}"
            else -> shorten("$value")
        }

        private fun readNormalization(normalizer: Any?): Normalization {
            for (form in listOf(null, Normalizer.Form.NFC, Normalizer.Form.NFKC)) {
                for (lowercase in listOf(false, true)) {
                    val steps = JSONArray()
                    if (form != null) steps.put(JSONObject().put("type", form.name))
                    if (lowercase) steps.put(JSONObject().put("type", "Lowercase"))
                    steps.put(JSONObject().put("type", "Prepend").put("prepend", " "))
                    val expected = JSONObject().put("type", "Sequence").put("normalizers", steps)
                    if (firstDifference(expected, normalizer, "") == null) return Normalization(form, lowercase)
                }
            }
            throw other("the normalizers NFC or NFKC (optional), Lowercase (optional), Prepend of one space", shown(normalizer))
        }

        /** Adds to [ids] what the merges make. */
        private fun readMerges(merges: JSONArray, ids: MutableMap<String, Int>): Merges {
            val lefts = IntArray(merges.length())
            val rights = IntArray(merges.length())
            val results = IntArray(merges.length())
            for (rank in lefts.indices) {
                val (left, right) = readPair(merges.get(rank), rank)
                lefts[rank] = idOf(left, ids)
                rights[rank] = idOf(right, ids)
                val made = left + right
                if (made in SPECIAL_SPELLINGS) throw other("merges of text", "one that makes $made")
                if (made.length > MAX_TOKEN_BYTES) throw damaged("a merge that makes more than $MAX_TOKEN_BYTES bytes")
                results[rank] = ids.getOrPut(made) { ids.size }
            }
            return Merges(lefts, rights, results)
        }

        private fun readPair(merge: Any, rank: Int): Pair<String, String> {
            val parts = (merge as? JSONArray)?.let { list -> List(list.length()) { list.get(it) } }
            val left = parts?.getOrNull(0) as? String
            val right = parts?.getOrNull(1) as? String
            if (left == null || right == null || parts.size != 2) throw damaged("merge $rank is not a pair: ${shown(merge)}")
            return Pair(left, right)
        }

        private fun idOf(token: String, ids: Map<String, Int>): Int {
            if (token in SPECIAL_SPELLINGS) throw other("merges of text", "one of $token")
            return ids[token] ?: throw damaged("a merge with ${shorten(token)}, which the vocabulary lacks before it")
        }

        private fun damaged(found: String, cause: Throwable? = null) =
            LiteNlpException(
                Problem.ALTERED,
                "tokenizer.json: expected a tokenizer of byte-level BPE, found a damaged one: $found",
                cause,
            )

        private fun other(expected: String, found: String) =
            LiteNlpException(Problem.OTHER_TOKENIZER, "tokenizer.json: expected $expected, found $found")

        private fun shorten(text: String): String = if (text.length <= 80) text else text.substring(0, 80) + "..."
    }
}
