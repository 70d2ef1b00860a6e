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
        private val SPECIAL_SPELLINGS = listOf("<pad>", "<s>", "</s>")

        /**
         * @throws LiteNlpException `ALTERED` if the file is damaged, `OTHER_TOKENIZER` if it is of another kind, `UNSUPPORTED` if
         *   its merging has options that this version does not know.
         */
        fun parse(content: ByteArray): TokenizerDocument =
            try {
                read(Json.parseObject(content))
            } catch (error: JsonSyntaxException) {
                throw damaged(error.message ?: "JSON that cannot be read", error)
            } catch (error: JSONException) {
                throw damaged(error.message ?: "JSON of another structure", error)
            }

        private fun read(document: JSONObject): TokenizerDocument {
            val model = document.getJSONObject("model")
            checkKind(document, model)
            checkOptions(model)
            val normalization = readNormalization(document.getJSONObject("normalizer"))
            val vocabulary = model.getJSONObject("vocab")
            val tokens = readTokens(vocabulary)
            val specials = tokens.take(SpecialTokens.COUNT)
            if (specials != SPECIAL_SPELLINGS) throw other("special tokens $SPECIAL_SPELLINGS", "$specials")
            val missing = ByteLevel.alphabet.count { !vocabulary.has(it.toString()) }
            if (missing > 0) throw damaged("no token for $missing of the 256 bytes")
            val byteTokens = IntArray(256) { vocabulary.getInt(ByteLevel.alphabet[it].toString()) }
            return TokenizerDocument(normalization, tokens, byteTokens, readMerges(model.getJSONArray("merges"), vocabulary))
        }

        private fun checkKind(document: JSONObject, model: JSONObject) {
            val cutter = document.getJSONObject("pre_tokenizer")
            val kind = "${model.getString("type")} after ${cutter.getString("type")}"
            if (kind != "BPE after ByteLevel") throw other("BPE after ByteLevel", kind)
            if (cutter.getBoolean("add_prefix_space") || !cutter.getBoolean("use_regex")) {
                throw other("a pre-tokenizer that adds no space and uses GPT-2's pattern", "$cutter")
            }
            for (name in listOf("added_tokens", "post_processor", "truncation", "padding")) {
                val value = document.get(name)
                val isEmpty = value == JSONObject.NULL || (value is JSONArray && value.length() == 0)
                if (!isEmpty) throw other("no $name", shorten("$value"))
            }
            val decoder = document.getJSONObject("decoder")
            val steps = decoder.getJSONArray("decoders")
            val types = List(steps.length()) { steps.getJSONObject(it).getString("type") }
            if (decoder.getString("type") != "Sequence" || types != listOf("ByteLevel", "Strip")) {
                throw other("the decoders ByteLevel and Strip", "$types")
            }
            val strip = steps.getJSONObject(1)
            if (strip.getString("content") != " " || strip.getInt("start") != 1 || strip.getInt("stop") != 0) {
                throw other("a decoder that takes one space away from the start", "$strip")
            }
        }

        /** Options of the merging that are off in all tokenizers of this project. */
        private fun checkOptions(model: JSONObject) {
            for (name in listOf("dropout", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges")) {
                val value = model.opt(name) ?: continue
                val isOff = value == JSONObject.NULL || value == false || value == "" || (value as? Number)?.toDouble() == 0.0
                if (!isOff) {
                    throw LiteNlpException(Problem.UNSUPPORTED, "tokenizer.json: expected a model without $name, found $value")
                }
            }
        }

        private fun readNormalization(normalizer: JSONObject): Normalization {
            val steps = normalizer.getJSONArray("normalizers")
            val types = List(steps.length()) { steps.getJSONObject(it).getString("type") }.toMutableList()
            val found = "$types"
            val form = Normalizer.Form.values().find { it.name == types.firstOrNull() && it.name in listOf("NFC", "NFKC") }
            if (form != null) types.removeAt(0)
            val lowercase = types.remove("Lowercase")
            val prepends = types == listOf("Prepend") && steps.getJSONObject(steps.length() - 1).getString("prepend") == " "
            if (normalizer.getString("type") != "Sequence" || !prepends) {
                throw other("the normalizers NFC or NFKC (optional), Lowercase (optional), Prepend of one space", found)
            }
            return Normalization(form, lowercase)
        }

        private fun readTokens(vocabulary: JSONObject): Array<String> {
            val size = vocabulary.length()
            val tokens = arrayOfNulls<String>(size)
            for (token in vocabulary.keys()) {
                val id = vocabulary.get(token)
                if (id !is Int || id !in 0 until size || tokens[id] != null) {
                    throw damaged("token ids that are not 0 to ${size - 1}, each once: $id")
                }
                tokens[id] = token
            }
            return tokens.requireNoNulls()
        }

        private fun readMerges(merges: JSONArray, vocabulary: JSONObject): Merges {
            val lefts = IntArray(merges.length())
            val rights = IntArray(merges.length())
            val results = IntArray(merges.length())
            for (rank in lefts.indices) {
                val (left, right) = readPair(merges.get(rank), rank)
                if (left + right in SPECIAL_SPELLINGS) throw other("merges of text", "one that makes ${left + right}")
                lefts[rank] = idOf(left, vocabulary)
                rights[rank] = idOf(right, vocabulary)
                results[rank] = idOf(left + right, vocabulary)
            }
            return Merges(lefts, rights, results)
        }

        /** Merges are written `["a", "b"]`, by older versions of the library `"a b"`. */
        private fun readPair(merge: Any, rank: Int): Pair<String, String> {
            val parts = if (merge is JSONArray) List(merge.length()) { merge.getString(it) } else "$merge".split(' ')
            if (parts.size != 2) throw damaged("merge $rank is not a pair: ${shorten("$merge")}")
            return Pair(parts[0], parts[1])
        }

        private fun idOf(token: String, vocabulary: JSONObject): Int =
            vocabulary.opt(token) as? Int ?: throw damaged("a merge with ${shorten(token)}, which the vocabulary lacks")

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
