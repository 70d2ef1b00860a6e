package dev.litenlp.core.engine

import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.Origin
import dev.litenlp.core.bundle.RuntimeKind
import dev.litenlp.core.bundle.StateTensor

/** A bundle's graphs in ONNX Runtime, on any platform. */
internal class OnnxEngine<T : Any>(
    private val onnx: OnnxRuntime<T>,
    manifest: Manifest,
    private val prefix: String,
    private val encode: OnnxGraph<T>,
    private val decodeStep: OnnxGraph<T>,
) : BundleEngine(manifest) {
    override val runtime: String get() = RuntimeKind.ONNX.key
    override val version: String = onnx.version

    override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
        val state = TensorTable(onnx)
        try {
            onnx.reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on encode with ${batch.rows} rows of ${batch.length} tokens") {
                makeState(state, batch, capacity)
            }
        } catch (error: Throwable) {
            state.close()
            throw error
        }
        return OnnxDecoding(onnx, manifest, prefix, decodeStep, state, batch.rows, capacity)
    }

    private fun makeState(state: TensorTable<T>, batch: SourceBatch, capacity: Int) {
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
                Origin.ZEROS -> {
                    val sizes = tensor.shape.map { it.resolve(batch.rows, batch.length, capacity).toLong() }
                    state[tensor.name] = onnx.newZeros(tensor.type, sizes.toLongArray())
                }
            }
        }
    }

    override fun unload() {
        decodeStep.close()
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

/** Tensors by name, owned by the table. */
private class TensorTable<T : Any>(private val onnx: OnnxRuntime<T>) : AutoCloseable {
    private val table = LinkedHashMap<String, T>()

    val handles: Map<String, T> get() = table

    /** Takes ownership of a tensor, and releases the one that had the name before. */
    operator fun set(name: String, tensor: T) {
        table.put(name, tensor)?.let(onnx::release)
    }

    fun putAll(names: Collection<String>, tensors: List<T>) = names.forEachIndexed { index, name -> set(name, tensors[index]) }

    /** Gives ownership of a tensor to the caller. */
    fun take(name: String): T = checkNotNull(table.remove(name))

    /** Releases all tensors but these. */
    fun retain(names: Collection<String>) = (table.keys - names.toSet()).forEach { onnx.release(take(it)) }

    override fun close() {
        table.values.forEach(onnx::release)
        table.clear()
    }
}
