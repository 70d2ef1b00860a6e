package dev.litenlp.core.container

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.naming
import java.security.MessageDigest
import java.util.zip.DataFormatException
import java.util.zip.Inflater
import org.json.JSONObject

/**
 * A compressed model (`.lnlp`) that has been checked; `compress/FORMAT.md` specifies every byte.
 *
 * @property tensors Tensors by name, in the order of the file. They are decoded when asked for and share the bytes of the file.
 * @property files Embedded files by name.
 * @property metadata Free JSON object.
 * @property aliases Further names of tensors (tied weights): alias to the name in [tensors].
 */
class Container private constructor(
    val tensors: Map<String, Tensor>,
    val files: Map<String, ByteArray>,
    val metadata: JSONObject,
    val aliases: Map<String, String>,
) {
    /** The tensor of this name or alias, or null. */
    fun tensor(name: String): Tensor? = tensors[aliases[name] ?: name]

    companion object {
        /** Version of the format that this class reads. */
        const val FORMAT_VERSION = 2

        private const val PREAMBLE_BYTES = 24
        private const val DIGEST_BYTES = 32
        private val MAGIC = byteArrayOf(0x89.toByte(), 0x4C, 0x4E, 0x4C, 0x50, 0x0D, 0x0A, 0x1A)

        /**
         * Checks and takes apart a container. Nothing is allocated by what it claims before that has been checked.
         *
         * @param bytes The file; kept, not copied.
         * @throws LiteNlpException `NOT_A_BUNDLE` (no container), `NEWER_SCHEMA`, `UNSUPPORTED` (an older version), `TRUNCATED`,
         *   `ALTERED` or `TOO_LARGE`.
         */
        fun parse(bytes: ByteArray): Container {
            checkWhole(bytes)
            val stored = uint(bytes, 16)
            val size = uint(bytes, 20)
            val end = bytes.size - DIGEST_BYTES
            if (stored > end - PREAMBLE_BYTES) throw altered("header: expected $stored bytes, found ${end - PREAMBLE_BYTES}")
            if (size > Limits.MAX_HEADER_BYTES) {
                throw LiteNlpException(
                    Problem.TOO_LARGE, "header: expected at most ${Limits.MAX_HEADER_BYTES} bytes, found a size of $size",
                )
            }
            return Inflation(bytes, PREAMBLE_BYTES, stored.toInt(), "header").use { stream ->
                val header = ContainerHeader.parse(stream.take(size), bytes.size.toLong())
                val plain = stream.take(header.plainBytes)
                stream.finish()
                Sections(bytes, PREAMBLE_BYTES + stored.toInt(), end, header).cut(plain)
            }
        }

        /** Checks magic, version, length and checksum. */
        private fun checkWhole(bytes: ByteArray) {
            for (index in 0 until minOf(MAGIC.size, bytes.size)) {
                if (bytes[index] != MAGIC[index]) {
                    throw LiteNlpException(
                        Problem.NOT_A_BUNDLE,
                        "not a container: expected the first bytes ${hex(MAGIC)}, found ${hex(bytes.copyOf(minOf(8, bytes.size)))}",
                    )
                }
            }
            if (bytes.size >= MAGIC.size + 4) checkVersion(uint(bytes, MAGIC.size))
            if (bytes.size < PREAMBLE_BYTES) {
                throw LiteNlpException(
                    Problem.TRUNCATED, "truncated: expected at least $PREAMBLE_BYTES bytes, found ${bytes.size}",
                )
            }
            val total = uint(bytes, 12)
            if (total != bytes.size.toLong()) {
                val short = bytes.size < total
                throw LiteNlpException(
                    if (short) Problem.TRUNCATED else Problem.ALTERED,
                    "${if (short) "truncated" else "altered"}: expected $total bytes, found ${bytes.size}",
                )
            }
            val end = bytes.size - DIGEST_BYTES
            val digest = MessageDigest.getInstance("SHA-256")
            if (end >= PREAMBLE_BYTES) digest.update(bytes, 0, end)
            if (end < PREAMBLE_BYTES || !digest.digest().contentEquals(bytes.copyOfRange(end, bytes.size))) {
                throw altered("altered: the file fails its SHA-256 checksum")
            }
        }

        private fun checkVersion(version: Long) {
            if (version > FORMAT_VERSION) {
                throw LiteNlpException(Problem.NEWER_SCHEMA, "newer format: expected version $FORMAT_VERSION, found $version")
            }
            if (version < FORMAT_VERSION) {
                throw LiteNlpException(Problem.UNSUPPORTED, "older format: expected version $FORMAT_VERSION, found $version")
            }
        }

        private fun uint(bytes: ByteArray, at: Int): Long = littleEndianInt(bytes, at).toLong() and 0xFFFFFFFFL

        private fun hex(bytes: ByteArray): String =
            bytes.joinToString(" ") { "%02X".format(java.util.Locale.ROOT, it) }
    }

    /** What follows the header in [bytes], from [start] until [end]: sections of files, then of tensors. */
    private class Sections(private val bytes: ByteArray, start: Int, end: Int, private val header: ContainerHeader) {
        private var at = start

        init {
            val lengths = header.files.mapNotNull { it.length } + header.tensors.map { it.length }
            val expected = lengths.fold(0L, ::saturatingAdd)
            if (expected != (end - start).toLong()) {
                throw altered("sections: expected $expected bytes in total, found ${end - start}")
            }
        }

        /** The container, whose files that are stored as they are lie in [plain]. */
        fun cut(plain: ByteArray): Container {
            val files = LinkedHashMap<String, ByteArray>()
            var taken = 0
            for (file in header.files) {
                files[file.name] = if (file.length == null) {
                    plain.copyOfRange(taken, taken + file.size.toInt()).also { taken += it.size }
                } else {
                    vocabulary(file.name, take(file.length), file)
                }
            }
            val tensors = LinkedHashMap<String, Tensor>()
            for (entry in header.tensors) {
                tensors[entry.name] = Tensor(entry.name, entry.shape, entry.encoding, bytes, take(entry.length), entry.length.toInt())
            }
            return Container(tensors, files, header.metadata, header.aliases)
        }

        private fun vocabulary(name: String, start: Int, file: FileSection): ByteArray =
            naming("file '$name'") { decodeVocabulary(Payload(bytes, start, at), file.size) }

        private fun take(length: Long): Int = at.also { at += length.toInt() }
    }
}

/** A zlib stream of [length] bytes at [start] of [bytes], inflated as far as is asked for, whatever it holds. */
internal class Inflation(bytes: ByteArray, start: Int, length: Int, private val what: String) : AutoCloseable {
    private val inflater = Inflater().apply { setInput(bytes, start, length) }

    /** The next [size] bytes. */
    fun take(size: Long): ByteArray {
        val content = takeUpTo(size.toInt())
        if (content.size.toLong() != size) {
            throw altered("$what: expected a zlib stream with $size bytes more, found ${content.size}")
        }
        return content
    }

    /** The next [size] bytes, fewer at the end. */
    fun takeUpTo(size: Int): ByteArray {
        val content = ByteArray(size)
        var filled = 0
        try {
            while (filled < size && !inflater.finished()) {
                val count = inflater.inflate(content, filled, size - filled)
                if (count == 0) break
                filled += count
            }
        } catch (error: DataFormatException) {
            throw LiteNlpException(Problem.ALTERED, "$what: expected a zlib stream: ${error.message}", error)
        }
        return if (filled == size) content else content.copyOf(filled)
    }

    /** Checks that the stream ends here, and nothing follows it. */
    fun finish() {
        if (takeUpTo(1).isNotEmpty() || !inflater.finished() || inflater.remaining != 0) {
            throw altered("$what: expected the zlib stream to end")
        }
    }

    override fun close() = inflater.end()
}

internal fun altered(message: String) = LiteNlpException(Problem.ALTERED, message)

internal fun littleEndianInt(bytes: ByteArray, at: Int): Int =
    (bytes[at].toInt() and 0xFF) or ((bytes[at + 1].toInt() and 0xFF) shl 8) or
        ((bytes[at + 2].toInt() and 0xFF) shl 16) or ((bytes[at + 3].toInt() and 0xFF) shl 24)

/** The sum of two counts; the largest [Long] instead of an overflow. */
internal fun saturatingAdd(first: Long, second: Long): Long =
    if (first > Long.MAX_VALUE - second) Long.MAX_VALUE else first + second
