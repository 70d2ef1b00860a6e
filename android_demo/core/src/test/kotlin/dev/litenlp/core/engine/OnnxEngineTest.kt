package dev.litenlp.core.engine

import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.TestBundle
import java.io.File
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** Ownership of tensors and graphs, and failures, on a runtime that counts the one and causes the other. */
class OnnxEngineTest {
    @TempDir
    lateinit var folder: File
    private lateinit var bundle: InstalledBundle
    private val onnx = FakeRuntime()
    private val factory = object : OnnxFactory<FakeTensor>() {
        override fun load(): OnnxRuntime<FakeTensor> = onnx
    }

    private class FakeFailure(message: String) : Exception(message)

    private class FakeTensor(val shape: List<Int>, val firsts: List<Float>)

    /** A tensor is the first element of each of its rows; the logits of a row are its token, its cache and two zeros. */
    private class FakeRuntime : OnnxRuntime<FakeTensor> {
        val tensors = HashSet<FakeTensor>()
        val graphs = HashSet<OnnxGraph<FakeTensor>>()

        /** Calls that succeed before one throws [thrown]. */
        var callsLeft = Int.MAX_VALUE
        var thrown: Throwable = FakeFailure("broken")
        var stepOutputs = listOf("logits", "new.position", "new.cache")

        override val version = "1.2.3"
        override val failure = FakeFailure::class.java

        private fun made(shape: List<Int>, firsts: List<Float>): FakeTensor {
            if (callsLeft-- == 0) throw thrown
            return FakeTensor(shape, firsts).also { tensors += it }
        }

        override fun open(graph: File, threads: Int): OnnxGraph<FakeTensor> {
            if (callsLeft-- == 0) throw thrown
            val opened = if (graph.name == "encode.onnx") {
                FakeGraph(OnnxNames.Graph(listOf("src_tokens", "src_mask"), listOf("key"))) { given ->
                    listOf(made(listOf(given.getValue("src_tokens").shape[0], 4, 2, 2), given.getValue("src_tokens").firsts))
                }
            } else {
                FakeGraph(OnnxNames.Graph(listOf("tokens", "position", "mask", "key", "cache"), stepOutputs)) { given ->
                    val cache = given.getValue("tokens").firsts.zip(given.getValue("cache").firsts) { token, past -> 10 * past + token }
                    val rows = cache.size
                    listOf(made(listOf(rows, 4), cache), made(listOf(rows), List(rows) { 0f }), made(listOf(rows, 8), cache))
                }
            }
            return opened.also { graphs += it }
        }

        inner class FakeGraph(
            override val names: OnnxNames.Graph,
            private val compute: (Map<String, FakeTensor>) -> List<FakeTensor>,
        ) : OnnxGraph<FakeTensor> {
            override fun run(tensors: Map<String, FakeTensor>) = compute(tensors.filterKeys { it in names.inputs })

            override fun close() = check(graphs.remove(this)) { "closed twice" }
        }

        override fun newLongs(values: LongArray, shape: LongArray) =
            made(shape.map { it.toInt() }, List(shape[0].toInt()) { values[it * values.size / shape[0].toInt()].toFloat() })

        override fun newBooleans(values: BooleanArray, shape: LongArray) = made(shape.map { it.toInt() }, List(shape[0].toInt()) { 1f })

        override fun newZeros(type: ElementType, shape: LongArray) = made(shape.map { it.toInt() }, List(shape[0].toInt()) { 0f })

        override fun readFloats(tensor: FakeTensor, target: FloatArray) {
            assertEquals(tensor.shape.reduce(Int::times), target.size)
            for ((row, first) in tensor.firsts.withIndex()) target[row * tensor.shape[1]] = first
        }

        override fun gatherRows(tensor: FakeTensor, rows: IntArray) =
            made(listOf(rows.size) + tensor.shape.drop(1), rows.map { tensor.firsts[it] })

        override fun release(tensor: FakeTensor) = check(tensors.remove(tensor)) { "released twice" }
    }

    @BeforeEach
    fun install() {
        val content = TestBundle()
        File(folder, "manifest.json").writeBytes(content.manifest())
        for ((name, bytes) in content.files) File(folder, name).writeBytes(bytes)
        bundle = InstalledBundle.open(folder, verify = false)
    }

    private fun start(engine: Engine) = engine.start(listOf(intArrayOf(3, 2), intArrayOf(1, 2)), 8)

    private fun firsts(logits: FloatArray, rows: Int) = List(rows) { logits[it * 4] }

    @Test
    fun `steps follow the rows, and all tensors and graphs are given back`() {
        val engine = factory.open(bundle, 1)
        assertEquals(listOf("onnx", "1.2.3"), listOf(engine.runtime, engine.version))
        val decoding = start(engine)
        // Position, mask, key and cache: neither the sources nor what a step returned besides is kept.
        assertEquals(4, onnx.tensors.size)
        assertEquals(listOf(1f, 2f), firsts(decoding.step(intArrayOf(1, 2)), 2))
        decoding.reorder(intArrayOf(1, 0, 1))
        assertEquals(listOf(23f, 12f, 21f), firsts(decoding.step(intArrayOf(3, 2, 1)), 3))
        assertEquals(5, onnx.tensors.size) // and the tokens fed last
        decoding.close()
        assertEquals(0, onnx.tensors.size)
        start(engine).step(intArrayOf(1, 1))
        engine.close()
        assertEquals(listOf(0, 0), listOf(onnx.tensors.size, onnx.graphs.size))
    }

    @Test
    fun `a failure at any call while a decoding starts leaves no tensor`() {
        val engine = factory.open(bundle, 1)
        for (calls in 0..5) {
            onnx.callsLeft = calls
            assertProblem(Problem.RUNTIME_FAILED, "encode with 2 rows of 2 tokens: broken") { start(engine) }
            assertEquals(0, onnx.tensors.size, "$calls calls before the failure")
        }
        onnx.callsLeft = Int.MAX_VALUE
        start(engine)
    }

    @Test
    fun `a reordering that fails changes nothing`() {
        val decoding = start(factory.open(bundle, 1))
        decoding.step(intArrayOf(1, 2))
        val kept = onnx.tensors.size
        for (calls in 0..3) {
            onnx.callsLeft = calls
            assertProblem(Problem.RUNTIME_FAILED, "reorder 2 rows: broken") { decoding.reorder(intArrayOf(1, 0)) }
            assertEquals(kept, onnx.tensors.size)
        }
        onnx.callsLeft = Int.MAX_VALUE
        assertArrayEquals(floatArrayOf(13f, 23f), firsts(decoding.step(intArrayOf(3, 3)), 2).toFloatArray())
    }

    @Test
    fun `what is thrown decides the problem`() {
        fun failing(error: Throwable) = onnx.apply { callsLeft = 0; thrown = error }
        val engine = factory.open(bundle, 1)
        failing(FakeFailure("std::bad_alloc"))
        assertProblem(Problem.OUT_OF_MEMORY, "bad_alloc") { start(engine) }
        failing(OutOfMemoryError("heap"))
        assertProblem(Problem.OUT_OF_MEMORY, "heap") { start(engine) }
        failing(IllegalStateException("a fault of ours"))
        assertThrows(IllegalStateException::class.java) { start(engine) }
        failing(FakeFailure("no graph"))
        assertProblem(Problem.RUNTIME_REFUSED, "no graph") { factory.open(bundle, 1) }
        val absent = object : OnnxFactory<FakeTensor>() {
            override fun load(): OnnxRuntime<FakeTensor> = throw UnsatisfiedLinkError("not there")
        }
        assertProblem(Problem.RUNTIME_MISSING, "expected the library of ONNX Runtime", "not there") { absent.open(bundle, 1) }
    }

    @Test
    fun `graphs that are refused are closed`() {
        onnx.callsLeft = 1
        assertProblem(Problem.RUNTIME_REFUSED, "broken") { factory.open(bundle, 1) }
        assertEquals(0, onnx.graphs.size)
        onnx.callsLeft = Int.MAX_VALUE
        // What shows only when the graphs are run: the first trial, and the second step of it.
        for (calls in listOf(2, 8, 13)) {
            onnx.callsLeft = calls
            assertProblem(Problem.RUNTIME_REFUSED, "do not do what the manifest says", "broken") { factory.open(bundle, 1) }
            assertEquals(listOf(0, 0), listOf(onnx.tensors.size, onnx.graphs.size), "$calls calls before the failure")
        }
        onnx.callsLeft = Int.MAX_VALUE
        onnx.stepOutputs = listOf("logits")
        assertProblem(Problem.RUNTIME_REFUSED, "outputs of decode_step: expected [new.position, new.cache, logits]") { factory.open(bundle, 1) }
        assertEquals(0, onnx.graphs.size)
    }
}
