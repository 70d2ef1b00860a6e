package dev.litenlp.core.container

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.security.MessageDigest
import java.util.zip.CRC32
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
        const val FORMAT_VERSION = 1

        private const val PREAMBLE_BYTES = 32
        private const val HEADER_START = PREAMBLE_BYTES + 4
        private const val DIGEST_BYTES = 32
        private val MAGIC = byteArrayOf(0x89.toByte(), 0x4C, 0x4E, 0x4C, 0x50, 0x0D, 0x0A, 0x1A)

        /**
         * Checks and takes apart a container. Nothing is allocated by what it claims before that has been checked.
         *
         * @param bytes The file; kept, not copied.
         * @throws LiteNlpException `NOT_A_BUNDLE` (no container), `NEWER_SCHEMA`, `TRUNCATED`, `ALTERED` or `TOO_LARGE`.
         */
        fun parse(bytes: ByteArray): Container {
            val header = checkedHeader(bytes)
            val starts = checkSections(bytes, header)
            checkDigest(bytes)
            val files = LinkedHashMap<String, ByteArray>()
            for ((index, file) in header.files.withIndex()) {
                files[file.name] = inflate(bytes, starts[index], file.length.toInt(), file.size, "file '${file.name}'")
            }
            val tensors = LinkedHashMap<String, Tensor>()
            for ((index, entry) in header.tensors.withIndex()) {
                val start = starts[header.files.size + index]
                tensors[entry.name] = Tensor(entry.name, entry.shape, entry.encoding, bytes, start, entry.length.toInt())
            }
            return Container(tensors, files, header.metadata, header.aliases)
        }

        private fun checkedHeader(bytes: ByteArray): ContainerHeader {
            for (index in 0 until minOf(MAGIC.size, bytes.size)) {
                if (bytes[index] != MAGIC[index]) {
                    throw LiteNlpException(
                        Problem.NOT_A_BUNDLE,
                        "not a container: expected the first bytes ${hex(MAGIC)}, found ${hex(bytes.copyOf(minOf(8, bytes.size)))}",
                    )
                }
            }
            if (bytes.size >= MAGIC.size + 4) {
                val version = uint(bytes, MAGIC.size)
                if (version > FORMAT_VERSION) {
                    throw LiteNlpException(
                        Problem.NEWER_SCHEMA, "newer format: expected version $FORMAT_VERSION or older, found $version",
                    )
                }
            }
            if (bytes.size < HEADER_START) {
                throw LiteNlpException(
                    Problem.TRUNCATED, "truncated: expected at least $HEADER_START bytes, found ${bytes.size}",
                )
            }
            if (uint(bytes, 8) < 1 || uint(bytes, PREAMBLE_BYTES) != crc(bytes, 0, PREAMBLE_BYTES)) {
                throw altered("altered: the preamble fails its checksum")
            }
            val total = uint(bytes, 24) or (uint(bytes, 28) shl 32)
            if (total != bytes.size.toLong()) {
                // A length of 2^63 or more is negative here, and more than there is all the same.
                val short = total < 0 || bytes.size < total
                throw LiteNlpException(
                    if (short) Problem.TRUNCATED else Problem.ALTERED,
                    "${if (short) "truncated" else "altered"}: expected ${java.lang.Long.toUnsignedString(total)} bytes, " +
                        "found ${bytes.size}",
                )
            }
            val length = uint(bytes, 12)
            if (length > bytes.size - HEADER_START - DIGEST_BYTES ||
                crc(bytes, HEADER_START, length.toInt()) != uint(bytes, 20)
            ) {
                throw altered("altered: the header fails its checksum")
            }
            val size = uint(bytes, 16)
            if (size > Limits.MAX_HEADER_BYTES) {
                throw LiteNlpException(
                    Problem.TOO_LARGE, "header: expected at most ${Limits.MAX_HEADER_BYTES} bytes, found a size of $size",
                )
            }
            val raw = inflate(bytes, HEADER_START, length.toInt(), size, "header")
            return ContainerHeader.parse(raw, end = HEADER_START + length.toInt(), fileBytes = total)
        }

        /** Checks that the sections fill the file, and each section's checksum; returns where each begins. */
        private fun checkSections(bytes: ByteArray, header: ContainerHeader): IntArray {
            val entries: List<SectionEntry> = header.files + header.tensors
            val found = (bytes.size - DIGEST_BYTES - header.end).toLong()
            val expected = entries.fold(0L) { sum, entry -> saturatingAdd(sum, entry.length) }
            if (expected != found) {
                throw altered("altered: expected sections of $expected bytes in total, found $found")
            }
            var position = header.end
            return IntArray(entries.size) { index ->
                val entry = entries[index]
                val start = position
                if (crc(bytes, start, entry.length.toInt()) != entry.crc32) {
                    throw altered("altered: '${entry.name}' fails its checksum")
                }
                position += entry.length.toInt()
                start
            }
        }

        private fun checkDigest(bytes: ByteArray) {
            val digest = MessageDigest.getInstance("SHA-256")
            digest.update(bytes, 0, bytes.size - DIGEST_BYTES)
            if (!digest.digest().contentEquals(bytes.copyOfRange(bytes.size - DIGEST_BYTES, bytes.size))) {
                throw altered("altered: the file fails its SHA-256 checksum")
            }
        }

        /** Inflates to exactly [size] bytes, allocating no more than that whatever the stream holds. */
        private fun inflate(bytes: ByteArray, start: Int, length: Int, size: Long, what: String): ByteArray {
            val inflater = Inflater()
            try {
                inflater.setInput(bytes, start, length)
                // One byte more, to reach the end of the stream and to notice one that goes on.
                val content = ByteArray(size.toInt() + 1)
                var filled = 0
                while (!inflater.finished()) {
                    val count = inflater.inflate(content, filled, content.size - filled)
                    if (count == 0) break
                    filled += count
                }
                if (filled.toLong() != size || !inflater.finished() || inflater.remaining != 0) {
                    throw altered("$what: expected a zlib stream of exactly $size bytes")
                }
                return content.copyOf(filled)
            } catch (error: DataFormatException) {
                throw LiteNlpException(Problem.ALTERED, "$what: expected a zlib stream: ${error.message}", error)
            } finally {
                inflater.end()
            }
        }

        private fun crc(bytes: ByteArray, start: Int, length: Int): Long =
            CRC32().apply { update(bytes, start, length) }.value

        private fun uint(bytes: ByteArray, at: Int): Long = littleEndianInt(bytes, at).toLong() and 0xFFFFFFFFL

        private fun hex(bytes: ByteArray): String =
            bytes.joinToString(" ") { "%02X".format(java.util.Locale.ROOT, it) }
    }
}

internal fun altered(message: String) = LiteNlpException(Problem.ALTERED, message)

internal fun littleEndianInt(bytes: ByteArray, at: Int): Int =
    (bytes[at].toInt() and 0xFF) or ((bytes[at + 1].toInt() and 0xFF) shl 8) or
        ((bytes[at + 2].toInt() and 0xFF) shl 16) or ((bytes[at + 3].toInt() and 0xFF) shl 24)

/** The sum of two counts; the largest [Long] instead of an overflow. */
internal fun saturatingAdd(first: Long, second: Long): Long =
    if (first > Long.MAX_VALUE - second) Long.MAX_VALUE else first + second
