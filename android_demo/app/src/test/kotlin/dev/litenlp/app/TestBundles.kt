package dev.litenlp.app

import org.json.JSONObject
import java.io.ByteArrayOutputStream
import java.security.MessageDigest
import java.util.zip.CRC32
import java.util.zip.GZIPInputStream
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream

/**
 * Bundles with the manifest and the tokenizer of the shipped model, and a few bytes in place of its graphs, which the
 * [FakeEngine] does not read.
 */
object TestBundles {
    /** The shipped model's `tokenizer.json`. */
    val tokenizer: ByteArray by lazy {
        val name = "/golden/tokenizer-shipped.json.gz"
        val stream = checkNotNull(javaClass.getResourceAsStream(name)) { "expected $name among the resources of core's tests" }
        GZIPInputStream(stream).use { it.readBytes() }
    }

    private val manifest: String by lazy {
        val stream = checkNotNull(javaClass.getResourceAsStream("/shipped-manifest.json")) { "expected the shipped manifest" }
        stream.use { String(it.readBytes()) }
    }

    /**
     * A bundle as a file.
     *
     * @param change made to the manifest before it is written
     * @param members replace the usual ones, after the manifest has been written: damage
     */
    fun zip(
        name: String = "tatoeba-en-de",
        tokenizer: ByteArray = this.tokenizer,
        change: (JSONObject) -> Unit = {},
        members: Map<String, ByteArray> = emptyMap(),
    ): ByteArray {
        val described = JSONObject(manifest).put("name", name)
        val contents = LinkedHashMap<String, ByteArray>()
        for (member in described.getJSONObject("files").keys()) {
            contents[member] = if (member == "tokenizer.json") tokenizer else "content of $member".toByteArray()
        }
        val files = JSONObject()
        for ((member, content) in contents) {
            files.put(member, JSONObject().put("sha256", sha256(content)).put("size_bytes", content.size))
        }
        change(described.put("files", files))
        val bytes = ByteArrayOutputStream()
        ZipOutputStream(bytes).use { zip ->
            zip.store("manifest.json", described.toString(1).toByteArray())
            for ((member, content) in contents + members) zip.store(member, content)
        }
        return bytes.toByteArray()
    }

    private fun ZipOutputStream.store(name: String, content: ByteArray) {
        val entry = ZipEntry(name)
        entry.method = ZipEntry.STORED
        entry.size = content.size.toLong()
        entry.crc = CRC32().apply { update(content) }.value
        putNextEntry(entry)
        write(content)
    }

    private fun sha256(content: ByteArray): String =
        MessageDigest.getInstance("SHA-256").digest(content).joinToString("") { "%02x".format(it) }
}
