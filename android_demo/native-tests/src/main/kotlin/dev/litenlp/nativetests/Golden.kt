package dev.litenlp.nativetests

import java.io.File
import java.util.zip.GZIPInputStream
import org.json.JSONArray
import org.json.JSONObject

/**
 * A line of text and what Python's ONNX Runtime makes of the bundle for it.
 *
 * @property pieces Token ids handed to the model one after another; most lines are one piece.
 * @property results By beam size.
 */
class GoldenLine(val text: String, val pieces: List<IntArray>, val results: Map<Int, Result>) {
    /**
     * @property tokens Ids of the translation of each piece.
     * @property stable Whether logits that are a little off give the same, so that any processor must.
     */
    class Result(val tokens: List<List<Int>>, val text: String, val stable: Boolean)
}

/** Python's translations, made by `tools/golden/translations.py`. */
object Golden {
    val all: List<GoldenLine> by lazy {
        val text = GZIPInputStream(File(property("litenlp.golden"), "translations.json.gz").inputStream()).use { it.readBytes() }
        val lines = JSONObject(String(text, Charsets.UTF_8)).getJSONArray("lines")
        (0 until lines.length()).map { readLine(lines.getJSONObject(it)) }
    }

    /** Lines to translate: all of them, or a sample where that takes too long. */
    val lines: List<GoldenLine> by lazy {
        val step = property("litenlp.every-line").toInt()
        all.filterIndexed { index, _ -> index % step == 0 }
    }

    private fun readLine(line: JSONObject): GoldenLine {
        val results = listOf(1, 4).associateWith { beam ->
            val result = line.getJSONObject("beam$beam")
            GoldenLine.Result(
                readLists(result.getJSONArray("tokens")),
                result.getString("text"),
                result.getBoolean("stable"),
            )
        }
        return GoldenLine(line.getString("text"), readLists(line.getJSONArray("pieces")).map { it.toIntArray() }, results)
    }
}

/** Lists of token ids. */
fun readLists(lists: JSONArray): List<List<Int>> = (0 until lists.length()).map { index ->
    val list = lists.getJSONArray(index)
    (0 until list.length()).map { list.getInt(it) }
}
