package dev.litenlp.nativetests

import dev.litenlp.app.engine.ExecuTorchEngineFactory
import dev.litenlp.app.engine.OnnxEngineFactory
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.SpecialTokens
import dev.litenlp.core.search.search
import java.io.File
import java.io.RandomAccessFile
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test

/** Files that the runtimes must not take, whatever the bundle's hashes say: an exception, not a crash. */
class RefusalsTest {
    private val onnx: EngineFactory = OnnxEngineFactory
    private val executorch: EngineFactory = ExecuTorchEngineFactory()
    private val sentence = intArrayOf(40, 50, 60)

    @BeforeEach
    fun openLibraries() = HostLoader.openAll()

    /** The bundle, its file [name] changed to other bytes of the same number, which is all that an unverified bundle is asked for. */
    private fun damaged(name: String, change: (ByteArray) -> Unit): InstalledBundle = TestBundle.changed("damaged") { folder ->
        val file = File(folder, name)
        file.writeBytes(file.readBytes().also(change))
    }

    /** The bundle with another manifest. */
    private fun described(change: (String) -> String): InstalledBundle = TestBundle.changed("described") { folder ->
        val file = File(folder, Manifest.FILE)
        val before = file.readText()
        val after = change(before)
        check(after != before) { "expected the change to find its place" }
        file.writeText(after)
    }

    private fun assertRefused(factory: EngineFactory, bundle: InstalledBundle, vararg words: String) {
        val error = assertProblem(Problem.RUNTIME_REFUSED) { factory.open(bundle, 1).close() }
        for (word in words) assertTrue(word in error.message, "expected '$word' in: ${error.message}")
    }

    @Test
    fun `a graph of other bytes`() = assertRefused(onnx, damaged("encode.onnx") { it.fill(0x5a) }, "encode.onnx")

    @Test
    fun `a graph that ends in zeros`() = assertRefused(onnx, damaged("beam.onnx") { it.fill(0, it.size / 2, it.size) })

    @Test
    fun `a graph with one bit changed in its middle never crashes`() {
        var refused = 0
        for (place in 1..40) {
            val bundle = damaged("beam.onnx") { it[it.size * place / 41] = (it[it.size * place / 41] + 64).toByte() }
            try {
                onnx.open(bundle, 1).use { engine -> search(engine, listOf(sentence), SearchOptions(beamSize = 2)) }
            } catch (error: LiteNlpException) {
                assertTrue(error.problem in listOf(Problem.RUNTIME_REFUSED, Problem.RUNTIME_FAILED), error.message)
                refused++
            }
        }
        assertTrue(refused > 5, "$refused of 40 were noticed")
    }

    @Test
    fun `graphs that lack their weights`() {
        val bundle = TestBundle.changed("deleted") {}
        check(bundle.file("weights.bin").delete())
        assertRefused(onnx, bundle, "weights.bin")
    }

    @Test
    fun `graphs whose weights are cut short`() {
        val bundle = TestBundle.changed("cut") {}
        RandomAccessFile(bundle.file("weights.bin"), "rw").use { it.setLength(it.length() / 2) }
        assertRefused(onnx, bundle, "External initializer", "out of bounds")
    }

    @Test
    fun `graphs in each other's place`() {
        val bundle = described { it.replace("\"encode\": \"encode.onnx\"", "\"encode\": \"decode_step.onnx\"") }
        assertRefused(onnx, bundle, "expected names among [src_tokens, src_mask]")
    }

    @Test
    fun `graphs of other state tensors than the manifest's`() {
        val bundle = described { it.replace("\"layers.0.self_key\"", "\"layers.0.other_key\"") }
        assertRefused(onnx, bundle, "layers.0.self_key")
    }

    @Test
    fun `a program of other bytes`() = assertRefused(executorch, damaged("model.pte") { it.fill(0x5a) }, "model.pte")

    @Test
    fun `a program of zeros`() = assertRefused(executorch, damaged("model.pte") { it.fill(0) })

    @Test
    fun `a program that is cut short`() {
        val bundle = TestBundle.changed("cut") {}
        for (part in listOf(2L, 100L, 100_000L)) {
            RandomAccessFile(bundle.file("model.pte"), "rw").use { it.setLength(it.length() / part) }
            assertRefused(executorch, bundle)
        }
        RandomAccessFile(bundle.file("model.pte"), "rw").use { it.setLength(0) }
        assertRefused(executorch, bundle)
    }

    @Test
    fun `a program that is not there`() {
        val bundle = TestBundle.changed("deleted") {}
        check(bundle.file("model.pte").delete())
        assertRefused(executorch, bundle, "does not exist")
    }

    @Test
    fun `a state of another shape than the graphs'`() {
        // The first cache, with one head more.
        val bundle = described { it.replaceFirst(Regex("(\"layers.0.self_key\",[^\\]]*\"batch\",\\s*)4"), "$15") }
        // Searches in ONNX Runtime have the caches in the shape of their own graph.
        val errors = listOf(
            assertProblem(Problem.RUNTIME_REFUSED) { executorch.open(bundle, 1) },
            onnx.open(bundle, 1).use { engine ->
                engine.start(listOf(sentence + SpecialTokens.EOS), 2).use { decoding ->
                    assertProblem(Problem.RUNTIME_FAILED) { decoding.step(intArrayOf(SpecialTokens.BOS)) }
                }
            },
        )
        for (error in errors) {
            assertTrue("decode_step" in error.message, error.message)
            // The reason is the runtime's own.
            assertTrue(listOf("Invalid", "invalid", "ttempted to").any { it in error.message }, error.message)
        }
    }

    @Test
    fun `a graph that is needed later is refused then`() {
        onnx.open(damaged("decode_step.onnx") { it.fill(0x5a) }, 1).use { engine ->
            assertTrue(search(engine, listOf(sentence), SearchOptions()).single().tokens.isNotEmpty())
            val error = assertProblem(Problem.RUNTIME_REFUSED) { engine.start(listOf(sentence + SpecialTokens.EOS), 2) }
            assertTrue("decode_step.onnx" in error.message, error.message)
        }
    }

    @Test
    fun `a bundle for one runtime alone`() {
        val onnxOnly = described { it.replace(Regex("\"executorch\": \\{\\s*\"program\""), "\"executorch\": null, \"other\": { \"program\"") }
        assertProblem(Problem.RUNTIME_MISSING) { executorch.open(onnxOnly, 1) }
        onnx.open(onnxOnly, 1).close()
    }
}
