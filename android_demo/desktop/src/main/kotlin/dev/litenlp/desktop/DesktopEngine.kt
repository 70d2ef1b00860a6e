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
import dev.litenlp.core.bundle.StateTensor
import dev.litenlp.core.engine.BundleDecoding
import dev.litenlp.core.engine.BundleEngine
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.engine.OnnxNames
import dev.litenlp.core.engine.SourceBatch

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
                    OnnxNames.check(bundle.manifest, entry.newPrefix, namesOf(encode), namesOf(decodeStep))
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

    private fun namesOf(session: OrtSession) = OnnxNames.Graph(session.inputNames, session.outputNames)
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
    manifest: Manifest,
    private val entry: OnnxEntry,
    private val encode: OrtSession,
    private val decodeStep: OrtSession,
) : BundleEngine(manifest) {
    override val runtime: String get() = DesktopEngineFactory.runtime
    override val version: String = environment.version

    override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
        val state = Tensors(environment)
        try {
            reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on ${entry.encode} with ${batch.rows} x ${batch.length} tokens") {
                fill(state, batch, capacity)
            }
        } catch (error: Throwable) {
            state.close()
            throw error
        }
        return DesktopDecoding(manifest, entry, decodeStep, state, batch.rows, capacity)
    }

    /** Makes the first state: what `encode` returns, the mask, and zeros. */
    private fun fill(state: Tensors, batch: SourceBatch, capacity: Int) {
        val shape = longArrayOf(batch.rows.toLong(), batch.length.toLong())
        state.put(OnnxNames.SRC_TOKENS, batch.tokens, shape)
        state.put(OnnxNames.SRC_MASK, batch.mask, shape)
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

    override fun unload() {
        encode.close()
        decodeStep.close()
    }
}

private class DesktopDecoding(
    manifest: Manifest,
    private val entry: OnnxEntry,
    private val decodeStep: OrtSession,
    private val state: Tensors,
    rows: Int,
    capacity: Int,
) : BundleDecoding(manifest, rows, capacity) {
    private var logits = FloatArray(0)

    override fun feed(tokens: IntArray): FloatArray {
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed on ${entry.decodeStep} with ${tokens.size} rows") {
            state.put(OnnxNames.TOKENS, LongArray(tokens.size) { tokens[it].toLong() }, longArrayOf(tokens.size.toLong()))
            state.putAll(decodeStep.run(state.only(decodeStep.inputNames)), entry.newPrefix)
            val values = state.floats(OnnxNames.LOGITS)
            if (logits.size < values.remaining()) logits = FloatArray(values.remaining())
            values.get(logits, 0, values.remaining())
        }
        return logits
    }

    override fun move(tensors: List<StateTensor>, rows: IntArray) {
        reporting(Problem.RUNTIME_FAILED, "ONNX Runtime failed to reorder ${rows.size} rows") {
            state.gather(tensors.map { it.name }, rows)
        }
    }

    override fun release() = state.close()
}
