package dev.litenlp.core.engine

import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.TestBundle
import java.io.File
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
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

    @BeforeEach
    fun install() {
        val content = TestBundle()
        File(folder, "manifest.json").writeBytes(content.manifest())
        for ((name, bytes) in content.files) File(folder, name).writeBytes(bytes)
        bundle = InstalledBundle.open(folder, verify = false)
    }

    private fun start(engine: Engine) = engine.start(listOf(intArrayOf(3, 2), intArrayOf(1, 2)), 8)

    private fun startBeams(engine: Engine) = engine.startBeams(listOf(intArrayOf(3, 2), intArrayOf(1, 2)), 8)!!

    /** A call for sentences that the state has, two hypotheses each, that extend these rows of it. */
    private fun call(vararg parents: Int, kept: IntArray = intArrayOf(0, 1), step: Int = 0, steps: Int = 2, token: Int = 1) = BeamCall(
        tokens = IntArray(parents.size) { token },
        parents = parents,
        kept = kept,
        live = DoubleArray(parents.size),
        best = DoubleArray(kept.size) { it.toDouble() },
        finished = IntArray(kept.size) { 4 + it },
        limits = IntArray(kept.size) { 4 + it },
        blocked = IntArray(3 * parents.size) { -1 },
        penalties = DoubleArray(6) { 1.0 },
        count = 2,
        step = step,
        steps = steps,
        leave = 1,
        minLength = 0,
    )

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
        start(engine).close()
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
    fun `searches follow the rows, and all tensors and graphs are given back`() {
        val engine = factory.open(bundle, 1)
        val decoding = startBeams(engine)
        assertEquals(4, onnx.tensors.size)
        val first = decoding.search(call(0, 0, 1, 1))
        assertEquals(listOf(2, 2, 2, 2, 3, 3, 3, 3), first.tokens.asList())
        assertEquals(listOf(0, 1, 0, 1, 0, 1, 0, 1), first.parents.asList())
        assertEquals(listOf(3.0, 3.0, 1.0, 1.0), first.live.asList())
        assertEquals(listOf(0.5, 1.5), first.best.asList())
        assertEquals(listOf(5, 6), first.finished.asList())
        assertEquals(listOf(false, false), first.done.asList())
        assertEquals(listOf(1, 1), first.origins.asList())
        assertTrue(first.isSound && first.steps == 2)
        assertEquals(4, onnx.tensors.size)
        // The first sentence leaves; the other goes on with what both of its hypotheses have.
        val second = decoding.search(call(3, 2, kept = intArrayOf(1), step = 2, token = 2))
        assertEquals(listOf(1.0, 1.0), second.live.asList())
        assertEquals(listOf(2, 2, 3, 3), second.tokens.asList())
        assertEquals(listOf(true), second.done.asList())
        assertEquals(4, onnx.tensors.size)
        decoding.close()
        assertEquals(0, onnx.tensors.size)
        assertThrows(IllegalStateException::class.java) { decoding.search(call(0, 0, 1, 1)) }
        startBeams(engine)
        engine.close()
        assertEquals(listOf(0, 0), listOf(onnx.tensors.size, onnx.graphs.size))
        assertThrows(IllegalStateException::class.java) { startBeams(engine) }
    }

    @Test
    fun `the graph of single steps is opened when it is needed`() {
        val engine = factory.open(bundle, 1)
        startBeams(engine).use { it.search(call(0, 0, 1, 1)) }
        assertEquals(listOf("encode.onnx", "beam.onnx"), onnx.opened)
        repeat(2) { start(engine).close() }
        assertEquals(listOf("encode.onnx", "beam.onnx", "decode_step.onnx"), onnx.opened)
        engine.close()
        onnx.stepOutputs = listOf("logits")
        val other = factory.open(bundle, 1)
        assertProblem(Problem.RUNTIME_REFUSED, "outputs of decode_step: expected [new.position, new.cache, logits]") { start(other) }
        assertEquals(listOf(0, 2), listOf(onnx.tensors.size, onnx.graphs.size))
    }

    @Test
    fun `a search that fails at any call leaves no tensor, and a state that goes on`() {
        val decoding = startBeams(factory.open(bundle, 1))
        decoding.search(call(0, 0, 1, 1))
        fun next() = decoding.search(call(3, 2, kept = intArrayOf(1), step = 2))
        // 13 tensors are given, and of the results of the run 8 read, after looks at their shapes.
        for (calls in 0 until 13 + 1 + 17) {
            onnx.callsLeft = calls
            assertProblem(Problem.RUNTIME_FAILED, "beam with 2 hypotheses: broken") {
                // Once the first sentence has left, the other is the first.
                if (calls <= 2) next() else decoding.search(call(3, 2, kept = intArrayOf(0), step = 2))
            }
            assertEquals(4, onnx.tensors.size, "$calls calls before the failure")
            onnx.callsLeft = Int.MAX_VALUE
        }
        assertEquals(listOf(0, 0, 1, 1), decoding.search(call(3, 2, kept = intArrayOf(0), step = 2)).tokens.asList())
    }

    @Test
    fun `a call outside the state is refused`() {
        val engine = factory.open(bundle, 1)
        startBeams(engine).use { decoding ->
            val wrong = mapOf(
                "parents: expected 0 to 1, found 2" to call(0, 0, 1, 2),
                "parents: expected 0 to 1, found -1" to call(0, 0, 1, -1),
                "kept: expected 0 to 1, found 2" to call(0, 0, 1, 1, kept = intArrayOf(1, 2)),
                "tokens: expected 0 to 3, found 4" to call(0, 0, 1, 1, token = 4),
                "expected at most 8 steps, the capacity of the state, found 9" to call(0, 0, 1, 1, step = 7),
            )
            for ((message, call) in wrong) {
                val error = assertThrows(IllegalArgumentException::class.java) { decoding.search(call) }
                assertTrue(message in error.message!!, error.message)
            }
            decoding.search(call(0, 0, 1, 1))
            decoding.search(call(3, 3, 3, 3, step = 2))
            assertThrows(IllegalArgumentException::class.java) { decoding.search(call(4, 3, 3, 3, step = 4)) }
        }
    }

    @Test
    fun `what no search gives is refused`() {
        val engine = factory.open(bundle, 1)
        fun tensor(type: String, value: Double, vararg shape: Int) =
            FakeTensor(type, shape.asList(), List(shape.fold(1, Int::times)) { value })
        val wrong = mapOf(
            "made.tokens: expected 0 to 3, found 4" to tensor("long", 4.0, 2, 2, 2),
            "made.tokens: expected the shape [1, 2, 2], found [3, 2, 2]" to tensor("long", 1.0, 3, 2, 2),
            "made.tokens: expected the shape [1, 2, 2], found []" to tensor("long", 1.0),
            "made.parents: expected 0 to 1, found 2" to tensor("long", 2.0, 2, 2, 2),
            "made.parents: expected the shape [2, 2, 2], found [1, 2, 2]" to tensor("long", 0.0, 1, 2, 2),
            "no double of 4 elements: last.live" to tensor("float", 0.0, 2, 2),
            "last.best: expected the shape [2, 1], found [2]" to tensor("double", 0.0, 2),
            "last.origins: expected 0 to 4, found 5" to tensor("long", 5.0, 2, 1),
            "last.finished: expected 0 to 2147483646, found -1" to tensor("long", -1.0, 2),
            "no bool of 2 elements: last.done" to tensor("long", 0.0, 2),
            "last.log_prob_sum: expected the shape [], found [1]" to tensor("float", 0.0, 1),
        )
        for ((message, tensor) in wrong) {
            onnx.given = mapOf(BEAM_OUTPUTS.first { it in message } to tensor)
            startBeams(engine).use { decoding ->
                assertProblem(Problem.RUNTIME_FAILED, message.substringBefore(": last")) { decoding.search(call(0, 0, 1, 1)) }
            }
            assertEquals(0, onnx.tensors.size, message)
        }
        onnx.given = mapOf("last.log_prob_sum" to tensor("float", Double.NaN))
        startBeams(engine).use { assertFalse(it.search(call(0, 0, 1, 1)).isSound) }
    }

    @Test
    fun `graphs that are refused are closed`() {
        onnx.callsLeft = 1
        assertProblem(Problem.RUNTIME_REFUSED, "broken") { factory.open(bundle, 1) }
        assertEquals(0, onnx.graphs.size)
        // What shows only when the graphs are run: the first trial, and the second step of it.
        for (calls in listOf(2, 8, 21, 22, 39, 55)) {
            onnx.callsLeft = calls
            assertProblem(Problem.RUNTIME_REFUSED, "do not do what the manifest says", "broken") { factory.open(bundle, 1) }
            assertEquals(listOf(0, 0), listOf(onnx.tensors.size, onnx.graphs.size), "$calls calls before the failure")
        }
        onnx.callsLeft = Int.MAX_VALUE
        onnx.cacheSymbols = listOf("batch", "other")
        assertProblem(Problem.RUNTIME_REFUSED, "beam: cache: expected a shape of known sizes, found [-1, -1] with the symbols [batch, other]") {
            factory.open(bundle, 1)
        }
        onnx.beamOutputs = BEAM_OUTPUTS - "new.cache"
        assertProblem(Problem.RUNTIME_REFUSED, "outputs of beam: expected [new.position, new.cache, made.tokens") { factory.open(bundle, 1) }
        assertEquals(listOf(0, 0), listOf(onnx.tensors.size, onnx.graphs.size))
    }
}
