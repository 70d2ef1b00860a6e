package dev.litenlp.desktop

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtLoggingLevel
import ai.onnxruntime.OrtSession
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.OnnxEntry
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

/** Opens bundles in ONNX Runtime's Java API, on a desktop. */
object DesktopEngineFactory : EngineFactory {
    override val runtime: String get() = "onnx"

    override fun open(bundle: InstalledBundle, threads: Int): Engine {
        require(threads >= 1) { "threads: expected at least 1, found $threads" }
        val entry = bundle.manifest.onnx
            ?: throw LiteNlpException(Problem.RUNTIME_MISSING, "${bundle.directory}: expected ONNX graphs, found none")
        val environment = environment()
        return reporting(Problem.RUNTIME_REFUSED, "ONNX Runtime does not take a graph of ${bundle.directory}") {
            val encode = createSession(environment, bundle, entry.encode, threads)
            try {
                val decodeStep = createSession(environment, bundle, entry.decodeStep, threads)
                try {
                    checkNames(bundle.manifest, entry, encode, decodeStep)
                    DesktopEngine(environment, bundle.manifest, entry, encode, decodeStep)
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

    private fun environment(): OrtEnvironment = try {
        OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR)
    } catch (error: LinkageError) {
        throw LiteNlpException(Problem.RUNTIME_MISSING, "expected ONNX Runtime for this system, found none: ${error.message}", error)
    }

    private fun createSession(environment: OrtEnvironment, bundle: InstalledBundle, member: String, threads: Int): OrtSession =
        OrtSession.SessionOptions().use { options ->
            options.setIntraOpNumThreads(threads)
            options.setInterOpNumThreads(1)
            environment.createSession(bundle.file(member).path, options)
        }

    /** The graphs are bound by name: what they ask for must be what the manifest gives, and the other way round. */
    private fun checkNames(manifest: Manifest, entry: OnnxEntry, encode: OrtSession, decodeStep: OrtSession) {
        val given = manifest.state.map { it.name } + TOKENS
        val wanted = manifest.changing.map { entry.newPrefix + it } + LOGITS
        expectAmong("inputs of ${entry.encode}", encode.inputNames, listOf(SRC_TOKENS, SRC_MASK))
        expectAmong("state of origin encode", manifest.encoded, encode.outputNames)
        expectAmong("inputs of ${entry.decodeStep}", decodeStep.inputNames, given)
        expectAmong("changing state", wanted, decodeStep.outputNames)
    }

    private fun expectAmong(what: String, names: Collection<String>, known: Collection<String>) {
        val unknown = names - known.toSet()
        if (unknown.isNotEmpty()) {
            throw LiteNlpException(Problem.RUNTIME_REFUSED, "$what: expected names among $known, found $unknown")
        }
    }
}

/** Runs [action]; what ONNX Runtime throws becomes a [LiteNlpException]. */
private inline fun <T> reporting(problem: Problem, what: String, action: () -> T): T = try {
    action()
} catch (error: OrtException) {
    throw LiteNlpException(problem, "$what: ${error.message}", error)
} catch (error: OutOfMemoryError) {
    throw LiteNlpException(Problem.OUT_OF_MEMORY, "$what: ${error.message}", error)
}

private class DesktopEngine(
    private val environment: OrtEnvironment,
    private val manifest: Manifest,
    private val entry: OnnxEntry,
    private val encode: OrtSession,
    private val decodeStep: OrtSession,
) : Engine {
    private val decodings: MutableSet<DesktopDecoding> = Collections.newSetFromMap(IdentityHashMap())
    private var isClosed = false

    override val runtime: String get() = DesktopEngineFactory.runtime
    override val version: String = environment.version
    override val maxSourceTokens: Int get() = manifest.bounds.source
    override val maxSteps: Int get() = manifest.bounds.capacity
    override val vocabSize: Int get() = manifest.vocabulary.tgtSize

    override fun start(sources: List<IntArray>, capacity: Int): Decoding {
        check(!isClosed) { "engine: closed" }
        val batch = SourceBatch.of(manifest, sources, capacity)
        val state = Tensors(environment)
        try {
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on ${entry.encode} with ${batch.rows} x ${batch.length} tokens") {
                fill(state, batch, capacity)
            }
        } catch (error: Throwable) {
            state.close()
            throw error
        }
        return DesktopDecoding(state, batch.rows, capacity).also { decodings += it }
    }

    /** Makes the first state: what `encode` returns, the mask, and zeros. */
    private fun fill(state: Tensors, batch: SourceBatch, capacity: Int) {
        val shape = longArrayOf(batch.rows.toLong(), batch.length.toLong())
        state.put(SRC_TOKENS, batch.tokens, shape)
        state.put(SRC_MASK, batch.mask, shape)
        state.putAll(encode.run(state.only(encode.inputNames)))
        for (tensor in manifest.state) {
            if (tensor.origin != Origin.ZEROS) continue
            val sizes = LongArray(tensor.shape.size) { tensor.shape[it].resolve(batch.rows, batch.length, capacity).toLong() }
            state.putZeros(tensor.name, javaType(tensor.type), sizes)
        }
        state.retain(manifest.state.map { it.name })
    }

    private fun javaType(type: ElementType): OnnxJavaType = when (type) {
        ElementType.FLOAT32 -> OnnxJavaType.FLOAT
        ElementType.INT64 -> OnnxJavaType.INT64
        ElementType.BOOL -> OnnxJavaType.BOOL
    }

    override fun close() {
        if (isClosed) return
        isClosed = true
        decodings.toList().forEach { it.close() }
        encode.close()
        decodeStep.close()
    }

    private inner class DesktopDecoding(private val state: Tensors, rows: Int, private val capacity: Int) : Decoding {
        private var logits = FloatArray(0)
        private var steps = 0
        private var isClosed = false

        override var rows = rows
            private set

        override fun step(tokens: IntArray): FloatArray {
            check(!isClosed) { "decoding: closed" }
            check(steps < capacity) { "decoding: expected at most $capacity steps, found one more" }
            require(tokens.size == rows) { "tokens: expected one for each of $rows rows, found ${tokens.size}" }
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on ${entry.decodeStep} in step ${steps + 1}") {
                state.put(TOKENS, LongArray(rows) { tokens[it].toLong() }, longArrayOf(rows.toLong()))
                state.putAll(decodeStep.run(state.only(decodeStep.inputNames)), entry.newPrefix)
                val values = state.floats(LOGITS)
                if (logits.size < values.remaining()) logits = FloatArray(values.remaining())
                values.get(logits, 0, values.remaining())
            }
            steps++
            return logits
        }

        override fun reorder(rows: IntArray) {
            check(!isClosed) { "decoding: closed" }
            require(rows.isNotEmpty() && rows.all { it in 0 until this.rows }) {
                "rows: expected indices 0 to ${this.rows - 1}, found ${rows.toList()}"
            }
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed to reorder ${this.rows} rows to ${rows.size}") {
                state.retain(manifest.state.map { it.name })
                state.gather(rows)
            }
            this.rows = rows.size
        }

        override fun close() {
            if (isClosed) return
            isClosed = true
            decodings -= this
            state.close()
        }
    }
}
