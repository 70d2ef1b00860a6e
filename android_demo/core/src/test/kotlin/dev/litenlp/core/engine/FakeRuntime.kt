package dev.litenlp.core.engine

import dev.litenlp.core.bundle.ElementType
import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue

private val BEAM_INPUTS = listOf("tokens", "parents", "live", "best", "finished", "limits", "blocked", "penalties") +
    listOf("count", "step", "steps", "leave", "min_length")

internal val BEAM_OUTPUTS = listOf("made.tokens", "made.parents", "last.live", "last.best", "last.origins", "last.finished") +
    listOf("last.done", "last.log_prob_sum", "new.position", "new.cache")

internal class FakeFailure(message: String) : Exception(message)

internal class FakeTensor(val type: String, val shape: List<Int>, val values: List<Double>) {
    init {
        assertEquals(shape.fold(1, Int::times), values.size)
    }

    val rows: List<List<Double>> get() = values.chunked(values.size / shape[0])
}

/**
 * A step gives each row its token behind its cache, read as a number, as first logit; a search gives each hypothesis the
 * cache's length as token and the key of its sentence as score, and counts what it is given.
 */
internal class FakeRuntime : OnnxRuntime<FakeTensor> {
    val tensors = HashSet<FakeTensor>()
    val graphs = HashSet<OnnxGraph<FakeTensor>>()
    val opened = ArrayList<String>()

    /** Calls that succeed before one throws [thrown]. */
    var callsLeft = Int.MAX_VALUE
    var thrown: Throwable = FakeFailure("broken")
    var stepOutputs = listOf("logits", "new.position", "new.cache")
    var beamOutputs = BEAM_OUTPUTS
    var cacheSymbols = listOf("batch", "past")

    /** Takes the place of what a search gives, by name. */
    var given = mapOf<String, FakeTensor>()

    override val version = "1.2.3"
    override val failure = FakeFailure::class.java

    private fun spend() {
        if (callsLeft-- == 0) throw thrown
    }

    private fun made(type: String, shape: List<Int>, values: List<Double>): FakeTensor {
        spend()
        return FakeTensor(type, shape, values).also { tensors += it }
    }

    override fun open(graph: File, threads: Int): OnnxGraph<FakeTensor> {
        spend()
        opened += graph.name
        val state = listOf("position", "mask", "key", "cache")
        val opened = when (graph.name) {
            "encode.onnx" -> FakeGraph(OnnxNames.Graph(listOf("src_tokens", "src_mask"), listOf("key")), ::encode)
            "decode_step.onnx" -> FakeGraph(OnnxNames.Graph(listOf("tokens") + state, stepOutputs), ::step)
            else -> FakeGraph(OnnxNames.Graph(BEAM_INPUTS + state, beamOutputs), ::search)
        }
        return opened.also { graphs += it }
    }

    private fun encode(given: Map<String, FakeTensor>): List<FakeTensor> {
        val firsts = given.getValue("src_tokens").rows.map { it[0] }
        return listOf(FakeTensor("float", listOf(firsts.size, 1), firsts))
    }

    private fun step(given: Map<String, FakeTensor>): List<FakeTensor> {
        val cache = given.getValue("tokens").values.zip(given.getValue("cache").rows) { token, past -> 10 * past[0] + token }
        val rows = cache.size
        return listOf(
            FakeTensor("float", listOf(rows, 4), cache.flatMap { listOf(it, 0.0, 0.0, 0.0) }),
            FakeTensor("long", listOf(rows), List(rows) { 0.0 }),
            FakeTensor("float", listOf(rows, 8), cache.flatMap { first -> List(8) { if (it == 0) first else 0.0 } }),
        )
    }

    private fun search(given: Map<String, FakeTensor>): List<FakeTensor> {
        fun scalar(name: String) = given.getValue(name).run { assertEquals(emptyList<Int>(), shape); values[0].toInt() }
        val (sentences, width) = given.getValue("tokens").shape
        assertEquals(sentences, given.getValue("mask").shape[0])
        val steps = scalar("steps")
        val (before, past) = given.getValue("cache").shape
        assertEquals(scalar("step"), past)
        // Each row is given what its hypothesis extends; the words themselves are of no matter.
        val caches = given.getValue("parents").values.zip(given.getValue("tokens").values) { parent, token ->
            assertTrue(parent.toInt() < before)
            given.getValue("cache").values.subList(parent.toInt() * past, (parent.toInt() + 1) * past) + List(steps) { token }
        }
        val words = List(steps) { step -> caches.map { (it.sum() + step) % 4 } }.flatten()
        val keys = given.getValue("key").values
        val done = given.getValue("limits").values.map { if (it <= scalar("step") + steps) 1.0 else 0.0 }
        val results = mapOf(
            "made.tokens" to FakeTensor("long", listOf(steps, sentences, width), words),
            "made.parents" to FakeTensor("long", listOf(steps, sentences, width), List(words.size) { (it % width).toDouble() }),
            "last.live" to FakeTensor("double", listOf(sentences, width), List(sentences * width) { keys[it / width] }),
            "last.best" to FakeTensor("double", listOf(sentences, 1), given.getValue("best").values.map { it + 0.5 }),
            "last.origins" to FakeTensor("long", listOf(sentences, 1), List(sentences) { 1.0 }),
            "last.finished" to FakeTensor("long", listOf(sentences), given.getValue("finished").values.map { it + 1 }),
            "last.done" to FakeTensor("bool", listOf(sentences), done),
            "last.log_prob_sum" to FakeTensor("float", listOf(), listOf(-1.0)),
            "new.position" to FakeTensor("long", listOf(caches.size), List(caches.size) { 0.0 }),
            "new.cache" to FakeTensor("float", listOf(caches.size, past + steps), caches.flatten()),
        )
        return results.map { (name, tensor) -> this.given[name] ?: tensor }
    }

    inner class FakeGraph(
        override val names: OnnxNames.Graph,
        private val compute: (Map<String, FakeTensor>) -> List<FakeTensor>,
    ) : OnnxGraph<FakeTensor> {
        override fun inputShape(name: String) =
            if (name == "cache") OnnxShape(longArrayOf(-1, -1), cacheSymbols) else OnnxShape(longArrayOf(-1), listOf(""))

        override fun run(tensors: Map<String, FakeTensor>): List<FakeTensor> {
            spend()
            return compute(tensors.filterKeys { it in names.inputs }).also { this@FakeRuntime.tensors += it }
        }

        override fun close() = check(graphs.remove(this)) { "closed twice" }
    }

    private fun sizes(shape: LongArray) = shape.map { it.toInt() }

    override fun newLongs(values: LongArray, shape: LongArray) = made("long", sizes(shape), values.map { it.toDouble() })

    override fun newDoubles(values: DoubleArray, shape: LongArray) = made("double", sizes(shape), values.asList())

    override fun newBooleans(values: BooleanArray, shape: LongArray) =
        made("bool", sizes(shape), values.map { if (it) 1.0 else 0.0 })

    override fun newZeros(type: ElementType, shape: LongArray) =
        made(type.name, sizes(shape), List(sizes(shape).fold(1, Int::times)) { 0.0 })

    override fun shape(tensor: FakeTensor): LongArray {
        spend()
        return LongArray(tensor.shape.size) { tensor.shape[it].toLong() }
    }

    private fun read(tensor: FakeTensor, type: String, size: Int): List<Double> {
        spend()
        if (tensor.type != type || tensor.values.size != size) throw FakeFailure("no $type of $size elements")
        return tensor.values
    }

    override fun readFloats(tensor: FakeTensor, target: FloatArray) =
        read(tensor, "float", target.size).forEachIndexed { index, value -> target[index] = value.toFloat() }

    override fun readDoubles(tensor: FakeTensor, target: DoubleArray) =
        read(tensor, "double", target.size).forEachIndexed { index, value -> target[index] = value }

    override fun readLongs(tensor: FakeTensor, target: LongArray) =
        read(tensor, "long", target.size).forEachIndexed { index, value -> target[index] = value.toLong() }

    override fun readBooleans(tensor: FakeTensor, target: BooleanArray) =
        read(tensor, "bool", target.size).forEachIndexed { index, value -> target[index] = value > 0 }

    override fun gatherRows(tensor: FakeTensor, rows: IntArray) =
        made(tensor.type, listOf(rows.size) + tensor.shape.drop(1), rows.flatMap { tensor.rows[it] })

    override fun release(tensor: FakeTensor) = check(tensors.remove(tensor)) { "released twice" }
}
