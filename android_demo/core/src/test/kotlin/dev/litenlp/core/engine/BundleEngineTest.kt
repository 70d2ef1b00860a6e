package dev.litenlp.core.engine

import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.StateTensor
import dev.litenlp.core.bundle.TestBundle
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

class BundleEngineTest {
    private val log = ArrayList<String>()
    private val manifest = Manifest.parse(TestBundle().manifest())
    private val engine = LoggingEngine()

    private inner class LoggingEngine : BundleEngine(manifest) {
        override val runtime = "log"
        override val version = "1"

        override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
            log += "encode ${batch.rows} x ${batch.length}"
            return LoggingDecoding(batch.rows, capacity)
        }

        override fun unload() {
            log += "unload"
        }
    }

    private inner class LoggingDecoding(rows: Int, capacity: Int) : BundleDecoding(manifest, rows, capacity) {
        override fun feed(tokens: IntArray): FloatArray {
            log += "feed ${tokens.asList()}"
            return FloatArray(tokens.size)
        }

        override fun move(tensors: List<StateTensor>, rows: IntArray) {
            log += "move ${tensors.map { it.name }} ${rows.asList()}"
        }

        override fun release() {
            log += "release"
        }
    }

    private fun start(rows: Int = 2, capacity: Int = 4) = engine.start(List(rows) { intArrayOf(3, 2) }, capacity)

    private fun logged(action: () -> Unit): List<String> {
        log.clear()
        action()
        return log.toList()
    }

    @Test
    fun `bounds are those of the bundle`() {
        assertEquals(listOf(16, 32, 4), listOf(engine.maxSourceTokens, engine.maxSteps, engine.vocabSize))
        assertProblem(Problem.TOO_LARGE, "found 33") { start(capacity = 33) }
        assertEquals(listOf("encode 2 x 2"), logged { start() })
    }

    @Test
    fun `closing an engine closes its decodings, each once`() {
        val first = start()
        val second = start()
        assertEquals(listOf("release"), logged { first.close(); first.close() })
        assertEquals(listOf("release", "unload"), logged { engine.close(); engine.close(); second.close() })
        assertThrows(IllegalStateException::class.java) { start() }
        for (use in listOf<(Decoding) -> Unit>({ it.step(intArrayOf(1, 1)) }, { it.reorder(intArrayOf(0)) }, { it.rows })) {
            assertThrows(IllegalStateException::class.java) { use(second) }
        }
    }

    @Test
    fun `steps take one token of the vocabulary for each row, and end with the capacity`() {
        val decoding = start(capacity = 2)
        for (wrong in listOf(intArrayOf(1), intArrayOf(1, 4), intArrayOf(-1, 1))) {
            assertEquals(emptyList<String>(), logged { assertThrows(IllegalArgumentException::class.java) { decoding.step(wrong) } })
        }
        assertArrayEquals(FloatArray(2), decoding.step(intArrayOf(1, 3)))
        decoding.step(intArrayOf(1, 1))
        assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(1, 1)) }
    }

    @Test
    fun `a reordering moves what it has to`() {
        val decoding = start()
        assertEquals(emptyList<String>(), logged { decoding.reorder(intArrayOf(0, 1)) })
        assertEquals(listOf("move [position, mask, key, cache] [0, 0, 1]"), logged { decoding.reorder(intArrayOf(0, 0, 1)) })
        assertEquals(3, decoding.rows)
        // Rows 0 and 1 belong to one sentence: only what the steps change differs between them.
        assertEquals(listOf("move [position, cache] [1, 0, 2]"), logged { decoding.reorder(intArrayOf(1, 0, 2)) })
        assertEquals(listOf("move [position, mask, key, cache] [2, 1, 0]"), logged { decoding.reorder(intArrayOf(2, 1, 0)) })
        for (wrong in listOf(intArrayOf(), intArrayOf(3), intArrayOf(-1))) {
            assertEquals(emptyList<String>(), logged { assertThrows(IllegalArgumentException::class.java) { decoding.reorder(wrong) } })
        }
    }

    @Test
    fun `graphs are bound by the names of the manifest`() {
        val encode = OnnxNames.Graph(listOf("src_tokens", "src_mask"), listOf("key"))
        val step = OnnxNames.Graph(listOf("tokens", "position", "mask", "key", "cache"), listOf("logits", "new.position", "new.cache"))
        val beam = OnnxNames.Graph(
            step.inputs + listOf("parents", "live", "best", "finished", "limits", "blocked", "penalties") +
                listOf("count", "step", "steps", "leave", "min_length"),
            listOf("new.position", "new.cache", "made.tokens", "made.parents", "last.live", "last.best") +
                listOf("last.origins", "last.finished", "last.done", "last.log_prob_sum"),
        )
        val checks = listOf<Triple<String, OnnxNames.Graph, (OnnxNames.Graph) -> Unit>>(
            Triple("encode", encode) { OnnxNames.checkEncode(manifest, it) },
            Triple("decode_step", step) { OnnxNames.checkDecodeStep(manifest, "new.", it) },
            Triple("beam", beam) { OnnxNames.checkBeam(manifest, "new.", it) },
        )
        for ((name, graph, check) in checks) {
            check(graph)
            // The graph's optimizer may leave out an input.
            check(OnnxNames.Graph(graph.inputs.drop(1), graph.outputs))
            val wrong = mapOf(
                "inputs of $name" to OnnxNames.Graph(graph.inputs + "x", graph.outputs),
                "outputs of $name" to OnnxNames.Graph(graph.inputs, graph.outputs.drop(1)),
                "outputs of $name:" to OnnxNames.Graph(graph.inputs, graph.outputs + "more"),
            )
            for ((what, other) in wrong) assertProblem(Problem.RUNTIME_REFUSED, what, "expected") { check(other) }
        }
    }
}
