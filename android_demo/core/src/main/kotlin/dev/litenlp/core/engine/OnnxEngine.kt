package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.Origin
import dev.litenlp.core.bundle.RuntimeKind
import dev.litenlp.core.bundle.StateTensor

/**
 * A bundle's graphs in ONNX Runtime, on any platform.
 *
 * @param beam Of the steps of a search.
 * @param openDecodeStep Opens the graph of [start]'s decodings when one is first started: searches do without, and each graph may
 *   hold the weights once more.
 */
internal class OnnxEngine<T : Any>(
    private val onnx: OnnxRuntime<T>,
    manifest: Manifest,
    private val prefix: String,
    private val encode: OnnxGraph<T>,
    private val beam: OnnxGraph<T>,
    private val openDecodeStep: () -> OnnxGraph<T>,
) : BundleEngine(manifest) {
    private var decodeStep: OnnxGraph<T>? = null

    override val runtime: String get() = RuntimeKind.ONNX.key
    override val version: String = onnx.version

    override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
        val graph = decodeStep ?: openDecodeStep().also { decodeStep = it }
        val state = makeState(batch) { shapeOf(it, batch, capacity) }
        return OnnxDecoding(onnx, manifest, prefix, graph, state, batch.rows, capacity)
    }

    override fun startBeams(sources: List<IntArray>, capacity: Int): BeamDecoding = begin(sources, capacity, ::encodeForBeams)

    private fun encodeForBeams(batch: SourceBatch, capacity: Int): OnnxBeams<T> {
        val state = makeState(batch) { tensor ->
            // What changes has the form that suits the graph.
            val isItsOwn = tensor.changes && tensor.name in beam.names.inputs
            if (isItsOwn) beamShapeOf(tensor.name, batch, capacity) else shapeOf(tensor, batch, capacity)
        }
        return OnnxBeams(onnx, manifest, prefix, beam, state, batch.rows, capacity)
    }

    private fun shapeOf(tensor: StateTensor, batch: SourceBatch, capacity: Int) =
        LongArray(tensor.shape.size) { tensor.shape[it].resolve(batch.rows, batch.length, capacity).toLong() }

    /** The shape of a state tensor before the first step of a search. */
    private fun beamShapeOf(name: String, batch: SourceBatch, capacity: Int): LongArray {
        val shape = beam.inputShape(name)
        return LongArray(shape.sizes.size) { axis ->
            when {
                axis == 0 -> batch.rows.toLong()
                shape.symbols[axis] == OnnxNames.PAST -> 0
                shape.symbols[axis] == OnnxNames.CAPACITY -> capacity.toLong()
                shape.sizes[axis] >= 0 -> shape.sizes[axis]
                else -> throw LiteNlpException(
                    Problem.RUNTIME_FAILED,
                    "beam: $name: expected a shape of known sizes, found ${shape.sizes.asList()} with the symbols ${shape.symbols}",
                )
            }
        }
    }

    private fun makeState(batch: SourceBatch, shapeOfZeros: (StateTensor) -> LongArray): TensorTable<T> {
        val state = TensorTable(onnx)
        state.closingOnFailure {
            onnx.reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on encode with ${batch.rows} rows of ${batch.length} tokens") {
                fillState(state, batch, shapeOfZeros)
            }
        }
        return state
    }

    private fun fillState(state: TensorTable<T>, batch: SourceBatch, shapeOfZeros: (StateTensor) -> LongArray) {
        val shape = longArrayOf(batch.rows.toLong(), batch.length.toLong())
        TensorTable(onnx).use { given ->
            given[OnnxNames.SRC_TOKENS] = onnx.newLongs(batch.tokens, shape)
            given[OnnxNames.SRC_MASK] = onnx.newBooleans(batch.mask, shape)
            state.putAll(encode.names.outputs, encode.run(given.handles))
        }
        state.retain(manifest.encoded)
        for (tensor in manifest.state) {
            when (tensor.origin) {
                Origin.ENCODE -> Unit
                Origin.SRC_MASK -> state[tensor.name] = onnx.newBooleans(batch.mask, shape)
                Origin.ZEROS -> state[tensor.name] = onnx.newZeros(tensor.type, shapeOfZeros(tensor))
            }
        }
    }

    override fun translate(source: IntArray, token: Int, steps: Int) = startBeams(listOf(source), steps).use { decoding ->
        // One call for each, so that what a call leaves is tried too.
        repeat(steps) { step ->
            decoding.search(
                BeamCall(
                    tokens = intArrayOf(token),
                    parents = intArrayOf(0),
                    kept = intArrayOf(0),
                    live = doubleArrayOf(0.0),
                    best = doubleArrayOf(Double.NEGATIVE_INFINITY),
                    finished = intArrayOf(0),
                    limits = intArrayOf(steps),
                    blocked = intArrayOf(-1),
                    penalties = DoubleArray(steps + 1) { 1.0 },
                    count = 1,
                    step = step,
                    steps = 1,
                    leave = 1,
                    minLength = steps,
                ),
            )
        }
    }

    override fun unload() {
        decodeStep?.close()
        beam.close()
        encode.close()
    }
}

private class OnnxDecoding<T : Any>(
    private val onnx: OnnxRuntime<T>,
    manifest: Manifest,
    private val prefix: String,
    private val decodeStep: OnnxGraph<T>,
    private val state: TensorTable<T>,
    rows: Int,
    capacity: Int,
) : BundleDecoding(manifest, rows, capacity) {
    private var logits = FloatArray(0)

    override fun feed(tokens: IntArray): FloatArray {
        onnx.reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on decode_step with ${tokens.size} rows") {
            val given = LongArray(tokens.size) { tokens[it].toLong() }
            state[OnnxNames.TOKENS] = onnx.newLongs(given, longArrayOf(tokens.size.toLong()))
            val results = decodeStep.run(state.handles)
            TensorTable(onnx).use { made ->
                made.putAll(decodeStep.names.outputs, results)
                val size = tokens.size * manifest.vocabulary.tgtSize
                if (logits.size != size) logits = FloatArray(size)
                onnx.readFloats(made.handles.getValue(OnnxNames.LOGITS), logits)
                for (name in manifest.changing) state[name] = made.take(prefix + name)
            }
        }
        return logits
    }

    override fun move(tensors: List<StateTensor>, rows: IntArray) {
        onnx.reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed to reorder ${rows.size} rows") {
            TensorTable(onnx).use { made ->
                for (tensor in tensors) made[tensor.name] = onnx.gatherRows(state.handles.getValue(tensor.name), rows)
                // Only now, when nothing can fail any more, so that a state is never half reordered.
                for (tensor in tensors) state[tensor.name] = made.take(tensor.name)
            }
        }
    }

    override fun release() = state.close()
}
