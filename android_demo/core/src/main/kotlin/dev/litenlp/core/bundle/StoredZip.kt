package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.io.EOFException
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.util.Locale
import java.util.zip.CRC32

/**
 * Reads a `.zip` file of stored members from a stream, front to back, and lets nothing pass that the writer of bundles does
 * not make: no compression, no encryption, no gaps, no name twice, no difference between the members' own headers and the
 * central directory, nothing after the end.
 *
 * Use: [next] and [read] until the one returns null, then all has been checked.
 *
 * @param source Read, but not closed.
 */
internal class StoredZip(private val source: InputStream) {
    /** A member; [sizeBytes] below 2^32 - 1. */
    class Member(val name: String, val sizeBytes: Long, internal val header: ByteArray, internal val offset: Long)

    private val members = LinkedHashMap<String, Member>()
    private var position = 0L
    private var current: Member? = null
    private var left = 0L
    private var verified = true
    private val crc = CRC32()

    /**
     * The next member, or null after the last one, when the directory has been checked as well.
     *
     * @throws LiteNlpException `NOT_A_BUNDLE` if this is no `.zip` file or not one of stored members, `TRUNCATED`, `ALTERED`,
     *   `TOO_LARGE` for 4 GiB and more, `STORAGE_FAILED` if the source cannot be read.
     */
    fun next(): Member? {
        check(verified) { "${current?.name}: expected all of it to be read first, found $left bytes left" }
        val offset = position
        val signature = if (current == null) firstSignature() else uint(bytes(4), 0)
        if (signature == CENTRAL_SIGNATURE && current != null) {
            checkDirectory(offset)
            return null
        }
        if (signature != LOCAL_SIGNATURE) throw damaged("expected a member or the directory at byte $offset, found neither")
        val header = bytes(LOCAL_BYTES)
        val name = name(bytes(ushort(header, NAME_LENGTH)))
        checkStored(name, header)
        bytes(ushort(header, EXTRA_LENGTH))
        val member = Member(name, uint(header, SIZE), header, offset)
        if (members.put(name, member) != null) throw damaged("expected each member once, found '$name' twice")
        current = member
        left = member.sizeBytes
        verified = false
        crc.reset()
        return member
    }

    /**
     * Reads on in the member at hand.
     *
     * @return Bytes read into [buffer], at least one; -1 at the end of the member, when its CRC-32 has been checked.
     * @throws LiteNlpException `TRUNCATED`, `ALTERED` or `STORAGE_FAILED`.
     */
    fun read(buffer: ByteArray): Int {
        val member = checkNotNull(current) { "expected a member to be at hand" }
        if (left == 0L) {
            val expected = uint(member.header, CRC)
            if (crc.value != expected) {
                throw LiteNlpException(
                    Problem.ALTERED,
                    "${member.name}: expected CRC-32 ${hex(expected)}, found ${hex(crc.value)}: the member has been altered",
                )
            }
            verified = true
            return -1
        }
        val count = fromSource(buffer, 0, minOf(left, buffer.size.toLong()).toInt())
        if (count < 0) throw truncated("${member.name}: expected $left bytes more")
        crc.update(buffer, 0, count)
        left -= count
        return count
    }

    private fun firstSignature(): Long {
        val start = ByteArray(4)
        for (index in start.indices) {
            val count = fromSource(start, index, 1)
            if (count < 0) throw truncated("expected a member's header")
            if (start[index] != FIRST_BYTES[index]) {
                val found = start.take(index + 1).joinToString(" ") { "%02X".format(Locale.ROOT, it) }
                throw LiteNlpException(
                    Problem.NOT_A_BUNDLE,
                    "expected a bundle (a .zip file made by `lite-nlp export`), found a file that begins with $found",
                )
            }
        }
        return uint(start, 0)
    }

    private fun checkStored(name: String, header: ByteArray) {
        val flags = ushort(header, FLAGS)
        val size = uint(header, SIZE)
        if (ushort(header, METHOD) != 0 || flags and UTF8_FLAG.inv() != 0 || uint(header, STORED_SIZE) != size) {
            throw damaged("$name: expected a stored member, found a compressed or encrypted one, or one of unknown size")
        }
        if (size == MAX_UINT) {
            throw LiteNlpException(Problem.TOO_LARGE, "$name: expected at most ${MAX_UINT - 1} bytes, found more")
        }
    }

    private fun checkDirectory(start: Long) {
        for ((index, member) in members.values.withIndex()) {
            if (index > 0) expectSignature(CENTRAL_SIGNATURE)
            val entry = bytes(CENTRAL_BYTES)
            val name = name(bytes(ushort(entry, CENTRAL_SHIFT + NAME_LENGTH)))
            // From the version needed to the length of the name, both headers hold the same fields.
            val same = (0 until EXTRA_LENGTH).all { entry[CENTRAL_SHIFT + it] == member.header[it] }
            if (name != member.name || !same || uint(entry, CENTRAL_OFFSET) != member.offset || ushort(entry, CENTRAL_DISK) != 0) {
                throw damaged("expected the directory to repeat the header of '${member.name}', found another entry for '$name'")
            }
            bytes(ushort(entry, CENTRAL_SHIFT + EXTRA_LENGTH))
            bytes(ushort(entry, CENTRAL_COMMENT))
        }
        val size = position - start
        expectSignature(END_SIGNATURE)
        val end = bytes(END_BYTES)
        val counts = ushort(end, 4) == members.size && ushort(end, 6) == members.size
        if (uint(end, 0) != 0L || !counts || uint(end, 8) != size || uint(end, 12) != start) {
            throw damaged("expected an end record of ${members.size} members, found another")
        }
        bytes(ushort(end, 16))
        if (fromSource(ByteArray(1), 0, 1) >= 0) throw damaged("expected $position bytes, found more")
    }

    private fun expectSignature(signature: Long) {
        val offset = position
        if (uint(bytes(4), 0) != signature) throw damaged("expected the directory to go on at byte $offset, found something else")
    }

    private fun name(content: ByteArray): String = try {
        Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(content)).toString()
    } catch (error: CharacterCodingException) {
        throw damaged("expected member names in UTF-8: ${error.message}")
    }

    /** The next [count] bytes; at most 65535, whatever the file says. */
    private fun bytes(count: Int): ByteArray {
        val content = ByteArray(count)
        var filled = 0
        while (filled < count) {
            val read = fromSource(content, filled, count - filled)
            if (read < 0) throw truncated("expected ${count - filled} bytes more of its structure")
            filled += read
        }
        return content
    }

    private fun fromSource(buffer: ByteArray, offset: Int, length: Int): Int {
        try {
            var count: Int
            do count = source.read(buffer, offset, length) while (count == 0)
            if (count > 0) position += count
            return count
        } catch (error: EOFException) {
            throw truncated("expected more: ${error.message}")
        } catch (error: IOException) {
            throw LiteNlpException(Problem.STORAGE_FAILED, "the bundle could not be read after $position bytes: ${error.message}", error)
        }
    }

    private fun truncated(expected: String) =
        LiteNlpException(Problem.TRUNCATED, "$expected, found the end of the file after $position bytes")

    /** Before the first member has been read, this may be any archive; later, it is a bundle that has been altered. */
    private fun damaged(message: String) =
        LiteNlpException(if (current == null) Problem.NOT_A_BUNDLE else Problem.ALTERED, message)

    private fun ushort(content: ByteArray, at: Int): Int =
        (content[at].toInt() and 0xFF) or ((content[at + 1].toInt() and 0xFF) shl 8)

    private fun uint(content: ByteArray, at: Int): Long =
        ushort(content, at).toLong() or (ushort(content, at + 2).toLong() shl 16)

    private fun hex(number: Long): String = "%08x".format(Locale.ROOT, number)

    private companion object {
        const val LOCAL_SIGNATURE = 0x04034B50L
        const val CENTRAL_SIGNATURE = 0x02014B50L
        const val END_SIGNATURE = 0x06054B50L
        const val MAX_UINT = 0xFFFFFFFFL
        const val UTF8_FLAG = 1 shl 11
        val FIRST_BYTES = byteArrayOf(0x50, 0x4B, 3, 4)

        // Lengths without the signature, and offsets in a member's own header.
        const val LOCAL_BYTES = 26
        const val FLAGS = 2
        const val METHOD = 4
        const val CRC = 10
        const val STORED_SIZE = 14
        const val SIZE = 18
        const val NAME_LENGTH = 22
        const val EXTRA_LENGTH = 24

        // In the directory, one field (the version that made it) comes before those that both have.
        const val CENTRAL_BYTES = 42
        const val CENTRAL_SHIFT = 2
        const val CENTRAL_COMMENT = 28
        const val CENTRAL_DISK = 30
        const val CENTRAL_OFFSET = 38
        const val END_BYTES = 18
    }
}
