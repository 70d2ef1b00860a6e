package dev.litenlp.app.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.Origin
import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.engine.SourceBatch
import java.util.Collections
import java.util.IdentityHashMap

private const val TOKENS = "tokens"
private const val SRC_TOKENS = "src_tokens"
private const val SRC_MASK = "src_mask"
private const val LOGITS = "logits"

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
                    checkNames(bundle.manifest, entry.newPrefix, encode, decodeStep)
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

    /** The graphs are bound by name: each name that they ask for must be one that the manifest gives, and the other way round. */
    private fun checkNames(manifest: Manifest, prefix: String, encode: OrtSession, decodeStep: OrtSession) {
        val state = manifest.state.map { it.name }
        expectAmong("encode", encode.inputs, listOf(SRC_TOKENS, SRC_MASK))
        expectAmong("encode's outputs", manifest.encoded, encode.outputs)
        expectAmong("decode_step", decodeStep.inputs, state + TOKENS)
        expectAmong("decode_step's outputs", manifest.changing.map { prefix + it } + LOGITS, decodeStep.outputs)
    }

    private fun expectAmong(what: String, names: List<String>, known: List<String>) {
        val unknown = names - known.toSet()
        if (unknown.isNotEmpty()) throw OrtException(0, "$what: expected names among $known, found $unknown")
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
    private val manifest: Manifest,
    private val prefix: String,
    private val encode: OrtSession,
    private val decodeStep: OrtSession,
) : Engine {
    private val decodings: MutableSet<OnnxDecoding> = Collections.newSetFromMap(IdentityHashMap())
    private var closed = false

    override val runtime: String get() = "onnx"
    override val version: String = OrtNative.version()
    override val maxSourceTokens: Int get() = manifest.bounds.source
    override val maxSteps: Int get() = manifest.bounds.capacity
    override val vocabSize: Int get() = manifest.vocabulary.tgtSize

    override fun start(sources: List<IntArray>, capacity: Int): Decoding {
        check(!closed) { "engine: closed" }
        val batch = SourceBatch.of(manifest, sources, capacity)
        val state = TensorTable()
        try {
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on encode with ${batch.rows} rows of ${batch.length} tokens") {
                makeState(state, batch, capacity)
            }
        } catch (error: Throwable) {
            state.close()
            throw error
        }
        val table = RowTable(batch.rows, capacity)
        return OnnxDecoding(manifest, prefix, decodeStep, state, table) { decodings -= it }.also { decodings += it }
    }

    private fun makeState(state: TensorTable, batch: SourceBatch, capacity: Int) {
        val shape = longArrayOf(batch.rows.toLong(), batch.length.toLong())
        TensorTable().use { given ->
            given[SRC_TOKENS] = OrtNative.newLongs(batch.tokens, shape)
            given[SRC_MASK] = OrtNative.newBooleans(batch.mask, shape)
            state.putAll(encode.outputs, encode.run(given.handles))
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

    override fun close() {
        if (closed) return
        closed = true
        decodings.toList().forEach { it.close() }
        decodeStep.close()
        encode.close()
    }
}

private class OnnxDecoding(
    private val manifest: Manifest,
    private val prefix: String,
    private val decodeStep: OrtSession,
    private val state: TensorTable,
    private val table: RowTable,
    private val onClose: (OnnxDecoding) -> Unit,
) : Decoding {
    private var logits = FloatArray(0)
    private var closed = false

    override val rows: Int
        get() {
            checkOpen()
            return table.count
        }

    override fun step(tokens: IntArray): FloatArray {
        checkOpen()
        table.beginStep(tokens, manifest.vocabulary.tgtSize)
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on decode_step with ${tokens.size} rows") {
            state[TOKENS] = OrtNative.newLongs(LongArray(tokens.size) { tokens[it].toLong() }, longArrayOf(tokens.size.toLong()))
            val results = decodeStep.run(state.handles)
            TensorTable().use { made ->
                made.putAll(decodeStep.outputs, results)
                readLogits(made.handles.getValue(LOGITS))
                for (name in manifest.changing) state[name] = made.take(prefix + name)
            }
        }
        return logits
    }

    private fun readLogits(tensor: Long) {
        val size = table.count * manifest.vocabulary.tgtSize
        if (logits.size != size) logits = FloatArray(size)
        OrtNative.readFloats(tensor, logits)
    }

    override fun reorder(rows: IntArray) {
        checkOpen()
        val names = when (table.classify(rows)) {
            Reordering.NOTHING -> return
            Reordering.WITHIN_SENTENCES -> manifest.changing
            Reordering.EVERYTHING -> manifest.state.map { it.name }
        }
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed to reorder ${rows.size} rows") {
            TensorTable().use { made ->
                for (name in names) made[name] = OrtNative.gatherRows(state.handles.getValue(name), rows)
                // Only now, when nothing can fail any more, so that a state is never of two minds.
                for (name in names) state[name] = made.take(name)
            }
        }
        table.commit(rows)
    }

    private fun checkOpen() = check(!closed) { "decoding: closed" }

    override fun close() {
        if (closed) return
        closed = true
        state.close()
        onClose(this)
    }
}

/** Tensors by name, which it releases. */
private class TensorTable : AutoCloseable {
    private val table = LinkedHashMap<String, Long>()

    val handles: Map<String, Long> get() = table

    /** Takes a tensor over, and releases what had the name before. */
    operator fun set(name: String, tensor: Long) {
        table.put(name, tensor)?.let(OrtNative::release)
    }

    fun putAll(names: List<String>, tensors: LongArray) = names.forEachIndexed { index, name -> set(name, tensors[index]) }

    /** Hands a tensor over to the caller. */
    fun take(name: String): Long = checkNotNull(table.remove(name))

    /** Releases all tensors but these. */
    fun retain(names: Collection<String>) = (table.keys - names.toSet()).forEach { OrtNative.release(take(it)) }

    override fun close() {
        table.values.forEach(OrtNative::release)
        table.clear()
    }
}
