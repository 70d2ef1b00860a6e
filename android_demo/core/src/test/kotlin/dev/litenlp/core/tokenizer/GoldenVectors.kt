package dev.litenlp.core.tokenizer

import java.util.zip.GZIPInputStream
import org.json.JSONArray
import org.json.JSONObject

/** Outputs of the Python package for chosen inputs: see the README of `resources/golden`. */
internal object GoldenVectors {
    val TOKENIZERS = listOf("shipped", "plain", "lower", "nfc", "nfkc-lower")

    fun read(name: String): JSONObject = JSONObject(bytes("$name.json.gz").toString(Charsets.UTF_8))

    fun tokenizerJson(name: String): ByteArray = bytes("tokenizer-$name.json.gz")

    fun tokenizer(name: String): Tokenizer = Tokenizer.fromJson(tokenizerJson(name))

    fun rows(json: JSONArray): List<JSONArray> = List(json.length()) { json.getJSONArray(it) }

    fun strings(json: JSONArray): List<String> = List(json.length()) { json.getString(it) }

    fun integers(json: JSONArray): IntArray = IntArray(json.length()) { json.getInt(it) }

    /** Name of a text in test reports, with every character readable. */
    fun show(text: String): String {
        val start = text.take(60).map { if (it in ' '..'~') "$it" else "\\u%04x".format(it.code) }.joinToString("")
        return "\"$start\" of ${text.length}"
    }

    private fun bytes(file: String): ByteArray =
        GZIPInputStream(checkNotNull(javaClass.getResourceAsStream("/golden/$file")) { "golden/$file is missing" })
            .use { it.readBytes() }
}
