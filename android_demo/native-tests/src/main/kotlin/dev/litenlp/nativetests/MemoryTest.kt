package dev.litenlp.nativetests

import dev.litenlp.app.engine.OrtException
import dev.litenlp.app.engine.OrtNative
import dev.litenlp.app.engine.OrtSession
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test

/** Native memory: what is released is given back. The virtual machine's heap must be of fixed size and touched beforehand. */
class MemoryTest {
    @BeforeEach
    fun openLibraries() {
        HostLoader.openAll()
        OrtNative.load()
    }

    private fun residentBytes(): Long {
        System.gc()
        val line = File("/proc/self/status").readLines().first { it.startsWith("VmRSS:") }
        return line.filter { it.isDigit() }.toLong() * 1024
    }

    /**
     * Runs [action] once to warm up and then again, and holds the growth of the resident memory against [most]. A leak grows each
     * time; what the allocator, or a native object that waits for the collector, keeps for a while does not: one of three counts.
     */
    private fun assertNoGrowth(most: Long, action: () -> Unit) {
        action()
        val growths = generateSequence {
            val before = residentBytes()
            action()
            residentBytes() - before
        }
        val least = growths.take(3).firstOrNull { it < most }
        assertTrue(least != null, "grew by $most bytes or more each time, expected less")
    }

    @Test
    fun `a million calls of the glue leave nothing behind`() {
        val values = LongArray(64) { it.toLong() }
        val shape = longArrayOf(8, 8)
        val rows = intArrayOf(3, 3, 0)
        // One leaked tensor per round would be 20 MB and more.
        assertNoGrowth(4_000_000) {
            repeat(200_000) {
                val tensor = OrtNative.newLongs(values, shape)
                val gathered = OrtNative.gatherRows(tensor, rows)
                check(OrtNative.shape(gathered)[0] == 3L)
                OrtNative.release(gathered)
                OrtNative.release(tensor)
            }
        }
    }

    @Test
    fun `shapes of inputs leave nothing behind`() {
        OrtSession(TestBundle.installed.file("encode.onnx"), 1).use { session ->
            val shape = session.inputShape("src_tokens")
            assertEquals(listOf(-1L, -1L), shape.sizes.asList())
            assertEquals(listOf("batch", "source"), shape.symbols)
            assertNoGrowth(4_000_000) { repeat(50_000) { session.inputShape("src_mask") } }
            assertThrows(OrtException::class.java) { session.inputShape("unknown") }
        }
    }

    @Test
    fun `failing calls leave nothing behind`() {
        val floats = OrtNative.newZeros(OrtNative.FLOAT32, longArrayOf(2, 1000))
        assertNoGrowth(4_000_000) {
            repeat(20_000) {
                assertThrows(OrtException::class.java) { OrtNative.gatherRows(floats, intArrayOf(0, 2)) }
                assertThrows(OrtException::class.java) { OrtNative.newLongs(LongArray(1000), longArrayOf(10, 10)) }
                assertThrows(OrtException::class.java) { OrtNative.newDoubles(DoubleArray(1000), longArrayOf(10, 10)) }
                assertThrows(OrtException::class.java) { OrtNative.readFloats(floats, FloatArray(3)) }
                assertThrows(OrtException::class.java) { OrtNative.readDoubles(floats, DoubleArray(2000)) }
                assertThrows(OrtException::class.java) { OrtNative.readLongs(floats, LongArray(2000)) }
                assertThrows(OrtException::class.java) { OrtNative.readBooleans(floats, BooleanArray(2000)) }
                assertThrows(OrtException::class.java) { OrtNative.newZeros(OrtNative.FLOAT32, longArrayOf(-1)) }
                assertThrows(OrtException::class.java) { OrtNative.newZeros(2, longArrayOf(1)) }
                assertThrows(OrtException::class.java) { OrtNative.newZeros(OrtNative.BOOL, LongArray(9) { 1 }) }
            }
        }
        OrtNative.release(floats)
    }

    @Test
    fun `tensors hold what they were given`() {
        val mask = OrtNative.newBooleans(booleanArrayOf(true, false, true, true), longArrayOf(2, 2))
        assertEquals(listOf(2L, 2L), OrtNative.shape(mask).asList())
        assertEquals(listOf(true, false, true, true), BooleanArray(4).also { OrtNative.readBooleans(mask, it) }.asList())
        assertThrows(OrtException::class.java) { OrtNative.readFloats(mask, FloatArray(4)) }
        OrtNative.release(mask)
        val zeros = OrtNative.newZeros(OrtNative.FLOAT32, longArrayOf(2, 3))
        val target = FloatArray(6) { 1f }
        OrtNative.readFloats(zeros, target)
        assertEquals(List(6) { 0f }, target.asList())
        OrtNative.release(zeros)
        val doubles = OrtNative.newDoubles(doubleArrayOf(0.1, Double.NEGATIVE_INFINITY), longArrayOf(2))
        assertEquals(listOf(0.1, Double.NEGATIVE_INFINITY), DoubleArray(2).also { OrtNative.readDoubles(doubles, it) }.asList())
        OrtNative.release(doubles)
        val scalar = OrtNative.newLongs(longArrayOf(Long.MIN_VALUE), longArrayOf())
        assertEquals(0, OrtNative.shape(scalar).size)
        assertEquals(listOf(Long.MIN_VALUE), LongArray(1).also { OrtNative.readLongs(scalar, it) }.asList())
        OrtNative.release(scalar)
        val empty = OrtNative.newLongs(LongArray(0), longArrayOf(0, 4))
        val none = OrtNative.gatherRows(empty, intArrayOf())
        assertEquals(listOf(0L, 4L), OrtNative.shape(none).asList())
        OrtNative.release(none)
        OrtNative.release(empty)
    }

    @Test
    fun `errors have ONNX Runtime's code and words`() {
        val missing = assertThrows(OrtException::class.java) { OrtSession(File("/not/there \u00e4\ud83d\ude00.onnx"), 1) }
        assertEquals(3, missing.code) // ORT_NO_SUCHFILE
        assertTrue("/not/there \u00e4\ud83d\ude00.onnx" in missing.message!!, missing.message)
        val bundle = TestBundle.installed
        OrtSession(bundle.file("encode.onnx"), 1).use { session ->
            assertEquals(setOf("src_tokens", "src_mask"), session.names.inputs.toSet())
            val flat = OrtNative.newLongs(longArrayOf(5, 2), longArrayOf(2))
            val wrong = assertThrows(OrtException::class.java) { session.run(mapOf("src_tokens" to flat, "src_mask" to flat)) }
            assertEquals(2, wrong.code) // ORT_INVALID_ARGUMENT
            assertTrue("src_tokens" in wrong.message!! || "src_mask" in wrong.message!!, wrong.message)
            OrtNative.release(flat)
            session.close()
            assertThrows(IllegalStateException::class.java) { session.run(emptyMap()) }
        }
    }

    @OnBothRuntimes
    fun `closing an engine gives its memory back`(factory: EngineFactory) {
        val source = Golden.all.first { it.pieces.size == 1 }.pieces[0]
        // The weights alone are 19 MB.
        assertNoGrowth(30_000_000) {
            repeat(12) {
                openEngine(factory).use { engine ->
                    search(engine, listOf(source), SearchOptions(beamSize = 2))
                    engine.start(listOf(source), engine.maxSteps).step(intArrayOf(1))
                }
            }
        }
    }

    @OnBothRuntimes
    fun `translating for long gives memory back`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val sources = Golden.all.filter { it.pieces.size == 1 && it.pieces[0].size in 1..30 }.map { it.pieces[0] }.take(60)
            assertNoGrowth(12_000_000) { for (source in sources) search(engine, listOf(source), SearchOptions()) }
        }
    }
}
