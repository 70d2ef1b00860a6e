package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import java.io.ByteArrayInputStream
import java.io.IOException
import java.io.InputStream
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

class StoredZipTest {
    private val first = "first".toByteArray()
    private val second = ByteArray(100_000) { (it % 251).toByte() }

    /** The members of [zip], read in blocks of odd size from a stream that gives few bytes at a time. */
    private fun read(zip: ByteArray): Map<String, List<Byte>> {
        val stingy = object : InputStream() {
            private val all = ByteArrayInputStream(zip)
            override fun read(): Int = all.read()
            override fun read(target: ByteArray, offset: Int, length: Int): Int = all.read(target, offset, minOf(length, 4099))
        }
        val reader = StoredZip(stingy)
        val members = LinkedHashMap<String, List<Byte>>()
        val buffer = ByteArray(7001)
        while (true) {
            val member = reader.next() ?: return members
            val content = ArrayList<Byte>()
            while (true) {
                val count = reader.read(buffer)
                if (count < 0) break
                content += buffer.take(count)
            }
            members[member.name] = content
        }
    }

    private fun twoMembers() = ZipWriter().add("a.txt", first).add("b", second)

    @Test
    fun `members in their order`() {
        val zip = twoMembers().add("empty", ByteArray(0)).add("ä", byteArrayOf(7), flags = 0x800, extra = ByteArray(9)).finish("comment")
        val members = read(zip)
        assertEquals(listOf("a.txt", "b", "empty", "ä"), members.keys.toList())
        assertEquals(listOf(first.toList(), second.toList(), listOf(), listOf<Byte>(7)), members.values.toList())
    }

    @Test
    fun `every beginning is truncated`() {
        val zip = ZipWriter().add("a.txt", first).add("b", ByteArray(50)).finish("comment")
        for (length in zip.indices) assertProblem(Problem.TRUNCATED, "found the end of the file") { read(zip.copyOf(length)) }
    }

    @Test
    fun `no flipped bit goes unnoticed but in fields that say nothing of the content`() {
        val zip = ZipWriter().add("a.txt", first).add("b", ByteArray(50)).finish()
        val good = read(zip)
        val unnoticed = ArrayList<Int>()
        for (place in zip.indices) {
            for (bit in 0 until 8) {
                val altered = zip.clone().also { it[place] = (it[place].toInt() xor (1 shl bit)).toByte() }
                try {
                    assertEquals(good, read(altered), "byte $place")
                    unnoticed += place
                } catch (_: LiteNlpException) {
                    continue
                }
            }
        }
        // Of each member in the directory: the version that made it, internal and external attributes.
        assertEquals(2 * (2 + 2 + 4), unnoticed.distinct().size)
    }

    @Test
    fun `what is no archive of stored members is no bundle`() {
        assertProblem(Problem.NOT_A_BUNDLE, "begins with 25") { read("%PDF-1.7".toByteArray()) }
        assertProblem(Problem.NOT_A_BUNDLE, "begins with 50 4B 05") { read(ZipWriter().finish()) }
        assertProblem(Problem.NOT_A_BUNDLE, "a.txt: expected a stored member") {
            read(ZipWriter().add("a.txt", first, flags = 1).finish())
        }
        assertProblem(Problem.NOT_A_BUNDLE, "a.txt: expected a stored member") {
            read(ZipWriter().add("a.txt", first, method = 8).finish())
        }
        val deflated = java.io.ByteArrayOutputStream()
        ZipOutputStream(deflated).use {
            it.putNextEntry(ZipEntry("document.xml"))
            it.write(second)
        }
        assertProblem(Problem.NOT_A_BUNDLE, "document.xml: expected a stored member") { read(deflated.toByteArray()) }
    }

    @Test
    fun `contradictions are alterations`() {
        assertProblem(Problem.ALTERED, "'b' twice") { read(twoMembers().add("b", first).finish()) }
        assertProblem(Problem.ALTERED, "b: expected CRC-32 00000001") {
            read(ZipWriter().add("a", first).add("b", second, crc = 1).finish())
        }
        assertProblem(Problem.ALTERED, "header of 'a', found another entry for '../a'") {
            read(ZipWriter().add("a", first, directoryName = "../a").finish())
        }
        assertProblem(Problem.ALTERED, "header of 'a'") { read(ZipWriter().add("a", first, directorySize = 4).finish()) }
        assertProblem(Problem.ALTERED, "end record of 2 members") { read(twoMembers().finish(count = 3)) }
        val zip = twoMembers().finish()
        assertProblem(Problem.ALTERED, "found more") { read(zip + 0) }
        assertProblem(Problem.ALTERED, "b: expected a stored member") {
            read(ZipWriter().add("a", first).add("b", second, flags = 8).finish())
        }
    }

    @Test
    fun `a source that fails is told from one that ends`() {
        val zip = twoMembers().finish()
        val failing = object : InputStream() {
            private val all = ByteArrayInputStream(zip)
            override fun read(): Int = if (all.available() > 50_000) all.read() else throw IOException("the card was removed")
        }
        val reader = StoredZip(failing)
        assertProblem(Problem.STORAGE_FAILED, "the card was removed") {
            while (reader.next() != null) while (reader.read(ByteArray(1000)) >= 0) continue
        }
    }

    @Test
    fun `a member must be read to its end`() {
        val reader = StoredZip(ByteArrayInputStream(twoMembers().finish()))
        reader.next()
        assertThrows(IllegalStateException::class.java) { reader.next() }
    }
}
