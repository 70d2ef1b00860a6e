package dev.litenlp.nativetests

import dev.litenlp.app.engine.ExecuTorchEngineFactory
import dev.litenlp.core.search.SpecialTokens
import java.io.File
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.pytorch.executorch.ExecuTorchRuntime
import org.pytorch.executorch.Module

/** What the methods of a program name, as `tools/checks/operators.py` lists it. */
class ProgramNames(list: JSONObject) {
    private val named = list.getJSONObject("methods")

    val methods: Set<String> = named.keys().asSequence().toSet()

    /** The `operators` or `backends` of a method. */
    fun names(key: String, method: String): List<String> {
        val list = named.getJSONObject(method).getJSONArray(key)
        return (0 until list.length()).map { list.getString(it) }
    }

    /** Those that a library, which has [registered] these, lacks. */
    fun missing(key: String, method: String, registered: Array<String>): List<String> = names(key, method) - registered.toSet()
}

/**
 * The exporter's ExecuTorch and the app's are different releases: what the program asks for must be in the app's library. A missing
 * operator would show only when its method first runs.
 */
class ProgramTest {
    /** The program's operators and backends, listed by `tools/checks/operators.py`. */
    private val wanted = ProgramNames(JSONObject(File(property("litenlp.operators")).readText()))

    @BeforeEach
    fun openLibraries() {
        HostLoader.openAll()
        System.loadLibrary("executorch")
    }

    @Test
    fun `every operator of the program is in the library`() {
        for (method in wanted.methods) {
            assertTrue(wanted.names("operators", method).size > 5, "$method: ${wanted.names("operators", method)}")
            assertEquals(emptyList<String>(), wanted.missing("operators", method, ExecuTorchRuntime.getRegisteredOps()), method)
        }
    }

    @Test
    fun `every backend of the program is in the library`() {
        assertTrue("XnnpackBackend" in wanted.methods.flatMap { wanted.names("backends", it) })
        for (method in wanted.methods) {
            assertEquals(emptyList<String>(), wanted.missing("backends", method, ExecuTorchRuntime.getRegisteredBackends()), method)
        }
    }

    @Test
    fun `every method of the program runs`() {
        val program = TestBundle.installed.file(checkNotNull(TestBundle.installed.manifest.executorch).program)
        val module = Module.load(program.path, Module.LOAD_MODE_MMAP, 1)
        assertEquals(wanted.methods, module.methods.toSet())
        module.destroy()
        // An engine runs all three, that for one row and that for several; a program with a fourth would need more than this.
        assertEquals(setOf("encode", "decode_step", "decode_in_place"), wanted.methods)
        ExecuTorchEngineFactory().open(TestBundle.installed, 1).use { engine ->
            for (rows in 1..2) {
                val sources = List(rows) { intArrayOf(40, SpecialTokens.EOS) }
                val logits = engine.start(sources, 2).step(IntArray(rows) { SpecialTokens.BOS })
                assertTrue(logits.all { it.isFinite() } && logits.distinct().size > engine.vocabSize / 2)
            }
        }
    }

    @Test
    fun `a row whose state the program holds goes on beside others, and when its rows move`() {
        val source = intArrayOf(40, 51, 62, SpecialTokens.EOS)
        val tokens = intArrayOf(SpecialTokens.BOS, 70, 81, 92)
        ExecuTorchEngineFactory().open(TestBundle.installed, 1).use { engine ->
            val expected = engine.start(listOf(source), tokens.size).use { alone ->
                tokens.map { token -> alone.step(intArrayOf(token)).copyOf(engine.vocabSize) }
            }
            // The first has the program's state until it becomes two rows; then a third may have it.
            val decodings = MutableList(2) { engine.start(listOf(source), tokens.size) }
            for ((place, token) in tokens.withIndex()) {
                if (place == 2) decodings[0].reorder(intArrayOf(0, 0))
                for (decoding in decodings) {
                    val logits = decoding.step(IntArray(decoding.rows) { token })
                    for (row in 0 until decoding.rows) {
                        val found = logits.copyOfRange(row * engine.vocabSize, (row + 1) * engine.vocabSize)
                        assertArrayEquals(expected[place], found, 2e-4f)
                    }
                }
            }
            val third = engine.start(listOf(source), tokens.size)
            for ((place, token) in tokens.withIndex()) assertArrayEquals(expected[place], third.step(intArrayOf(token)).copyOf(engine.vocabSize))
        }
    }
}
