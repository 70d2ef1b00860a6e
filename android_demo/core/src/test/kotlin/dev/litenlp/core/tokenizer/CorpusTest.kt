package dev.litenlp.core.tokenizer

import java.io.BufferedInputStream
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.InputStream
import java.security.MessageDigest
import java.util.zip.GZIPInputStream
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.condition.EnabledIfSystemProperty

/**
 * Every line of whole corpora gives the ids that Python gives (`android_demo/tools/golden/corpus_digests.py`), and comes back.
 *
 * Runs where the system property `litenlp.corpora` names the folder of the corpora; `litenlp.corpora.digests` may name another
 * file of digests than that of the corpora which the project is measured on.
 */
@EnabledIfSystemProperty(named = "litenlp.corpora", matches = ".+")
class CorpusTest {
    private val folder = File(System.getProperty("litenlp.corpora"))

    @Test
    fun everyLineGivesTheIdsOfPython() {
        val entries = readDigests()
        assertTrue(entries.length() > 0)
        val tokenizers = HashMap<String, Tokenizer>()
        var lines = 0
        for (index in 0 until entries.length()) {
            val entry = entries.getJSONObject(index)
            val name = entry.getString("tokenizer")
            val file = File(folder, entry.getString("file"))
            assertTrue(file.isFile) { "$file: expected a corpus, found none" }
            val found = digest(file, tokenizers.getOrPut(name) { GoldenVectors.tokenizer(name) }, name)
            for (key in found.keys()) assertEquals(entry.get(key), found.get(key)) { "$file, $name: $key" }
            lines += found.getInt("lines")
        }
        println("$lines lines of ${entries.length()} files and tokenizers")
    }

    private fun readDigests(): JSONArray {
        val file = System.getProperty("litenlp.corpora.digests")
        val stream = if (file != null) File(file).inputStream() else checkNotNull(javaClass.getResourceAsStream("/corpora.json"))
        return JSONArray(stream.use { it.readBytes() }.toString(Charsets.UTF_8))
    }

    private fun digest(file: File, tokenizer: Tokenizer, name: String): JSONObject {
        val digest = MessageDigest.getInstance("SHA-256")
        var lines = 0
        var tokens = 0
        forEachLine(file) { line ->
            val ids = tokenizer.encode(line)
            digest.update((ids.joinToString(" ") + "\n").toByteArray())
            // The other tokenizers change the text.
            if (name == "shipped" && tokenizer.decode(ids) != line) throw AssertionError("$file: ${GoldenVectors.show(line)}")
            lines++
            tokens += ids.size
        }
        val hex = digest.digest().joinToString("") { "%02x".format(it) }
        return JSONObject().put("lines", lines).put("tokens", tokens).put("ids_sha256", hex)
    }

    /** Only "\n" ends a line; a "\r" before it, and a byte order mark before the first line, are dropped. */
    private fun forEachLine(file: File, use: (String) -> Unit) {
        var isFirst = true
        open(file).use { stream ->
            val bytes = ByteArrayOutputStream()
            while (true) {
                val byte = stream.read()
                if (byte >= 0 && byte != '\n'.code) {
                    bytes.write(byte)
                    continue
                }
                if (byte < 0 && bytes.size() == 0) return
                val line = bytes.toString("UTF-8").removeSuffix("\r")
                use(if (isFirst) line.removePrefix("\uFEFF") else line)
                isFirst = false
                bytes.reset()
                if (byte < 0) return
            }
        }
    }

    private fun open(file: File): InputStream {
        val stream = file.inputStream()
        return BufferedInputStream(if (file.name.endsWith(".gz")) GZIPInputStream(stream, 1 shl 16) else stream)
    }
}
