package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest

/**
 * Beam searches in ONNX Runtime, between whose calls the state stays in its tensors.
 *
 * @param state Before the first step: of all tensors a row for each sentence.
 * @param sentences That are in it.
 * @param capacity Steps that it has place for.
 */
internal class OnnxBeams<T : Any>(
    private val onnx: OnnxRuntime<T>,
    private val manifest: Manifest,
    private val prefix: String,
    private val beam: OnnxGraph<T>,
    private val state: TensorTable<T>,
    private var sentences: Int,
    private val capacity: Int,
) : StartedDecoding(), BeamDecoding {
    /** Of what steps change: a row for each hypothesis after the first call. */
    private var rows = sentences

    override fun search(call: BeamCall): BeamSteps {
        checkOpen()
        check(call)
        return onnx.reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on beam with ${call.tokens.size} hypotheses") {
            // In order, so that as many are the same.
            if (call.sentences != sentences) leave(call.kept)
            TensorTable(onnx).use { given ->
                giveCall(given, call)
                val results = beam.run(state.handles + given.handles)
                TensorTable(onnx).use { made ->
                    made.putAll(beam.names.outputs, results)
                    val steps = BeamResults(onnx, made.handles, call, manifest.vocabulary.tgtSize).read()
                    for (name in manifest.changing) state[name] = made.take(prefix + name)
                    rows = call.tokens.size
                    steps
                }
            }
        }
    }

    private fun check(call: BeamCall) {
        expectAmong("parents", call.parents, rows)
        expectAmong("kept", call.kept, sentences)
        expectAmong("tokens", call.tokens, manifest.vocabulary.tgtSize)
        val last = call.step + call.steps
        require(last <= capacity) { "beam: expected at most $capacity steps, the capacity of the state, found $last" }
    }

    private fun expectAmong(name: String, indices: IntArray, size: Int) {
        for (index in indices) require(index in 0 until size) { "beam: $name: expected 0 to ${size - 1}, found $index" }
    }

    /** Leaves the other sentences out of what depends on the source alone; of the rest the graph takes the rows that it is told. */
    private fun leave(kept: IntArray) {
        TensorTable(onnx).use { made ->
            val names = manifest.state.filter { !it.changes }.map { it.name }
            for (name in names) made[name] = onnx.gatherRows(state.handles.getValue(name), kept)
            // Only now, when nothing can fail any more, so that a state is never half of these sentences.
            for (name in names) state[name] = made.take(name)
        }
        sentences = kept.size
    }

    private fun giveCall(given: TensorTable<T>, call: BeamCall) {
        val sentences = call.sentences
        val hypotheses = call.tokens.size
        given[OnnxNames.TOKENS] = newLongs(call.tokens, sentences, call.width)
        given[OnnxNames.PARENTS] = newLongs(call.parents, sentences, call.width)
        given[OnnxNames.LIVE] = newDoubles(call.live, sentences, call.width)
        given[OnnxNames.BEST] = newDoubles(call.best, sentences, 1)
        given[OnnxNames.FINISHED] = newLongs(call.finished, sentences)
        given[OnnxNames.LIMITS] = newLongs(call.limits, sentences)
        given[OnnxNames.BLOCKED] = newLongs(call.blocked, hypotheses, call.blocked.size / hypotheses)
        given[OnnxNames.PENALTIES] = newDoubles(call.penalties, call.penalties.size)
        given[OnnxNames.COUNT] = newLongs(intArrayOf(call.count), 1)
        given[OnnxNames.STEP] = newLongs(intArrayOf(call.step))
        given[OnnxNames.STEPS] = newLongs(intArrayOf(call.steps))
        given[OnnxNames.LEAVE] = newLongs(intArrayOf(call.leave))
        given[OnnxNames.MIN_LENGTH] = newLongs(intArrayOf(call.minLength))
    }

    private fun newLongs(values: IntArray, vararg shape: Int): T =
        onnx.newLongs(LongArray(values.size) { values[it].toLong() }, longsOf(shape))

    private fun newDoubles(values: DoubleArray, vararg shape: Int): T = onnx.newDoubles(values, longsOf(shape))

    override fun release() = state.close()
}

private fun longsOf(sizes: IntArray) = LongArray(sizes.size) { sizes[it].toLong() }

/** What a graph of beam search gave for a call, checked: shapes as the manifest says, and indices that point somewhere. */
private class BeamResults<T : Any>(
    private val onnx: OnnxRuntime<T>,
    private val tensors: Map<String, T>,
    private val call: BeamCall,
    private val vocabSize: Int,
) {
    private val sentences = call.sentences
    private val width = call.width

    /** @throws LiteNlpException `RUNTIME_FAILED` if it is anything else. */
    fun read(): BeamSteps {
        val steps = onnx.shape(tensors.getValue(OnnxNames.MADE_TOKENS)).firstOrNull()?.takeIf { it in 1..call.steps }?.toInt() ?: 1
        return BeamSteps(
            steps = steps,
            tokens = integers(OnnxNames.MADE_TOKENS, vocabSize, steps, sentences, width),
            parents = integers(OnnxNames.MADE_PARENTS, width, steps, sentences, width),
            live = doubles(OnnxNames.LAST_LIVE, sentences, width),
            best = doubles(OnnxNames.LAST_BEST, sentences, 1),
            origins = integers(OnnxNames.LAST_ORIGINS, 1 + steps * width, sentences, 1),
            finished = integers(OnnxNames.LAST_FINISHED, Int.MAX_VALUE, sentences),
            done = BooleanArray(sentences).also { onnx.readBooleans(tensor(OnnxNames.LAST_DONE, sentences), it) },
            isSound = !FloatArray(1).also { onnx.readFloats(tensor(OnnxNames.LAST_LOG_PROB_SUM), it) }[0].isNaN(),
        )
    }

    /** Numbers from 0 to [size] - 1. */
    private fun integers(name: String, size: Int, vararg shape: Int): IntArray {
        val values = LongArray(shape.fold(1, Int::times))
        onnx.readLongs(tensor(name, *shape), values)
        for (value in values) if (value < 0 || value >= size) throw failed(name, "0 to ${size - 1}", "$value")
        return IntArray(values.size) { values[it].toInt() }
    }

    private fun doubles(name: String, vararg shape: Int): DoubleArray =
        DoubleArray(shape.fold(1, Int::times)).also { onnx.readDoubles(tensor(name, *shape), it) }

    private fun tensor(name: String, vararg shape: Int): T {
        val tensor = tensors.getValue(name)
        val found = onnx.shape(tensor)
        if (!found.contentEquals(longsOf(shape))) throw failed(name, "the shape ${shape.asList()}", "${found.asList()}")
        return tensor
    }

    private fun failed(name: String, expected: String, found: String) =
        LiteNlpException(Problem.RUNTIME_FAILED, "beam: $name: expected $expected, found $found")
}
