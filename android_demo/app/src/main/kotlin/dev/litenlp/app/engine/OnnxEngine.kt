package dev.litenlp.app.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.Origin
import dev.litenlp.core.bundle.StateTensor
import dev.litenlp.core.engine.BundleDecoding
import dev.litenlp.core.engine.BundleEngine
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.engine.OnnxNames
import dev.litenlp.core.engine.SourceBatch

/** Opens bundles in the ONNX Runtime that comes with the app. */
object OnnxEngineFactory : EngineFactory {
    override val runtime: String get() = "onnx"

    override fun open(bundle: InstalledBundle, threads: Int): Engine {
        require(threads >= 1) { "threads: expected at least 1, found $threads" }
        val entry = bundle.manifest.onnx
            ?: throw LiteNlpException(Problem.RUNTIME_MISSING, "${bundle.directory}: expected ONNX graphs, found none")
        try {
            OrtNative.load()
        } catch (error: LinkageError) {
            throw LiteNlpException(Problem.RUNTIME_MISSING, "expected the library of ONNX Runtime, found none that can be loaded: ${error.message}", error)
        }
        return reporting(Problem.RUNTIME_REFUSED, "ONNX Runtime does not take a graph of ${bundle.directory}") {
            val encode = OrtSession(bundle.file(entry.encode), threads)
            try {
                val decodeStep = OrtSession(bundle.file(entry.decodeStep), threads)
                try {
                    OnnxNames.check(bundle.manifest, entry.newPrefix, encode.names, decodeStep.names)
                    OnnxEngine(bundle.manifest, entry.newPrefix, encode, decodeStep)
                } catch (error: Throwable) {
                    decodeStep.close()
                    throw error
                }
            } catch (error: Throwable) {
                encode.close()
                throw error
            }
        }
    }
}

/** Runs [action]; what ONNX Runtime throws becomes a [LiteNlpException]. */
private inline fun <T> reporting(problem: Problem, what: String, action: () -> T): T = try {
    action()
} catch (error: OrtException) {
    // A refused allocation has no code of its own.
    val noMemory = error.message.orEmpty().let { "bad_alloc" in it || "Failed to allocate memory" in it }
    throw LiteNlpException(if (noMemory) Problem.OUT_OF_MEMORY else problem, "$what: ${error.message}", error)
} catch (error: OutOfMemoryError) {
    throw LiteNlpException(Problem.OUT_OF_MEMORY, "$what: ${error.message}", error)
}

private class OnnxEngine(
    manifest: Manifest,
    private val prefix: String,
    private val encode: OrtSession,
    private val decodeStep: OrtSession,
) : BundleEngine(manifest) {
    override val runtime: String get() = OnnxEngineFactory.runtime
    override val version: String = OrtNative.version()

    override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
        val state = TensorTable()
        try {
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on encode with ${batch.rows} rows of ${batch.length} tokens") {
                makeState(state, batch, capacity)
            }
        } catch (error: Throwable) {
            state.close()
            throw error
        }
        return OnnxDecoding(manifest, prefix, decodeStep, state, batch.rows, capacity)
    }

    private fun makeState(state: TensorTable, batch: SourceBatch, capacity: Int) {
        val shape = longArrayOf(batch.rows.toLong(), batch.length.toLong())
        TensorTable().use { given ->
            given[OnnxNames.SRC_TOKENS] = OrtNative.newLongs(batch.tokens, shape)
            given[OnnxNames.SRC_MASK] = OrtNative.newBooleans(batch.mask, shape)
            state.putAll(encode.names.outputs, encode.run(given.handles))
        }
        state.retain(manifest.encoded)
        for (tensor in manifest.state) {
            when (tensor.origin) {
                Origin.ENCODE -> Unit
                Origin.SRC_MASK -> state[tensor.name] = OrtNative.newBooleans(batch.mask, shape)
                Origin.ZEROS -> {
                    val sizes = tensor.shape.map { it.resolve(batch.rows, batch.length, capacity).toLong() }
                    state[tensor.name] = OrtNative.newZeros(onnxType(tensor.type), sizes.toLongArray())
                }
            }
        }
    }

    private fun onnxType(type: ElementType): Int = when (type) {
        ElementType.FLOAT32 -> OrtNative.FLOAT32
        ElementType.INT64 -> OrtNative.INT64
        ElementType.BOOL -> OrtNative.BOOL
    }

    override fun unload() {
        decodeStep.close()
        encode.close()
    }
}

private class OnnxDecoding(
    manifest: Manifest,
    private val prefix: String,
    private val decodeStep: OrtSession,
    private val state: TensorTable,
    rows: Int,
    capacity: Int,
) : BundleDecoding(manifest, rows, capacity) {
    private var logits = FloatArray(0)

    override fun feed(tokens: IntArray): FloatArray {
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on decode_step with ${tokens.size} rows") {
            val given = LongArray(tokens.size) { tokens[it].toLong() }
            state[OnnxNames.TOKENS] = OrtNative.newLongs(given, longArrayOf(tokens.size.toLong()))
            val results = decodeStep.run(state.handles)
            TensorTable().use { made ->
                made.putAll(decodeStep.names.outputs, results)
                val size = tokens.size * manifest.vocabulary.tgtSize
                if (logits.size != size) logits = FloatArray(size)
                OrtNative.readFloats(made.handles.getValue(OnnxNames.LOGITS), logits)
                for (name in manifest.changing) state[name] = made.take(prefix + name)
            }
        }
        return logits
    }

    override fun move(tensors: List<StateTensor>, rows: IntArray) {
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed to reorder ${rows.size} rows") {
            TensorTable().use { made ->
                for (tensor in tensors) made[tensor.name] = OrtNative.gatherRows(state.handles.getValue(tensor.name), rows)
                // Only now, when nothing can fail any more, so that a state is never of two minds.
                for (tensor in tensors) state[tensor.name] = made.take(tensor.name)
            }
        }
    }

    override fun release() = state.close()
}

/** Tensors by name, which it releases. */
private class TensorTable : AutoCloseable {
    private val table = LinkedHashMap<String, Long>()

    val handles: Map<String, Long> get() = table

    /** Takes a tensor over, and releases what had the name before. */
    operator fun set(name: String, tensor: Long) {
        table.put(name, tensor)?.let(OrtNative::release)
    }

    fun putAll(names: Collection<String>, tensors: LongArray) = names.forEachIndexed { index, name -> set(name, tensors[index]) }

    /** Hands a tensor over to the caller. */
    fun take(name: String): Long = checkNotNull(table.remove(name))

    /** Releases all tensors but these. */
    fun retain(names: Collection<String>) = (table.keys - names.toSet()).forEach { OrtNative.release(take(it)) }

    override fun close() {
        table.values.forEach(OrtNative::release)
        table.clear()
    }
}
