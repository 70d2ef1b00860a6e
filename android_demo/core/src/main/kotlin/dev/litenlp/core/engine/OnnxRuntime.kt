package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.OnnxEntry
import dev.litenlp.core.bundle.RuntimeKind
import java.io.File

/**
 * ONNX Runtime as one platform offers it: its C API on Android, its Java API on a desktop.
 *
 * The caller owns every tensor that it gets, and passes it to [release] once. All functions but [release] throw [failure].
 *
 * @param T A tensor.
 */
interface OnnxRuntime<T : Any> {
    /** ONNX Runtime's version, such as `1.24.3`. */
    val version: String

    /** Exception of the platform's API for errors that ONNX Runtime reports. */
    val failure: Class<out Exception>

    /** Opens a graph for the CPU with [threads] threads of one operator; its external data are in the files beside it. */
    fun open(graph: File, threads: Int): OnnxGraph<T>

    /** A tensor with these elements, row-major. */
    fun newLongs(values: LongArray, shape: LongArray): T

    /** A tensor with these elements, row-major. */
    fun newDoubles(values: DoubleArray, shape: LongArray): T

    /** A tensor with these elements, row-major. */
    fun newBooleans(values: BooleanArray, shape: LongArray): T

    /** A tensor of zeros. */
    fun newZeros(type: ElementType, shape: LongArray): T

    /** Sizes of a tensor's dimensions. */
    fun shape(tensor: T): LongArray

    /** Copies a float tensor into an array of as many elements. */
    fun readFloats(tensor: T, target: FloatArray)

    /** Copies a tensor of 64-bit floats into an array of as many elements. */
    fun readDoubles(tensor: T, target: DoubleArray)

    /** Copies a tensor of 64-bit integers into an array of as many elements. */
    fun readLongs(tensor: T, target: LongArray)

    /** Copies a bool tensor into an array of as many elements. */
    fun readBooleans(tensor: T, target: BooleanArray)

    /** A tensor whose row `i` is row `rows[i]` of the given one. */
    fun gatherRows(tensor: T, rows: IntArray): T

    /** Releases a tensor; cannot fail. */
    fun release(tensor: T)
}

/** A graph, opened. One thread at a time. */
interface OnnxGraph<T : Any> : AutoCloseable {
    /** The inputs that the graph's optimizer has left, and the outputs. */
    val names: OnnxNames.Graph

    /** Shape of one of the inputs. */
    fun inputShape(name: String): OnnxShape

    /**
     * Runs the graph.
     *
     * @param tensors By name, all inputs at least; they stay the caller's.
     * @return A tensor for each of the outputs, the caller's from now on.
     */
    fun run(tensors: Map<String, T>): List<T>
}

/**
 * Shape of an input, as a graph tells it.
 *
 * @property sizes Of the dimensions; -1 where they are not fixed.
 * @property symbols What the graph calls those; empty where it has no word for a dimension.
 */
class OnnxShape(val sizes: LongArray, val symbols: List<String>)

/** Opens bundles in ONNX Runtime. */
abstract class OnnxFactory<T : Any> : EngineFactory {
    final override val runtime: String get() = RuntimeKind.ONNX.key

    /**
     * Loads the library, unless it is loaded.
     *
     * @throws LinkageError If it is not there, or is not the one expected.
     */
    protected abstract fun load(): OnnxRuntime<T>

    final override fun open(bundle: InstalledBundle, threads: Int): Engine {
        require(threads >= 1) { "threads: expected at least 1, found $threads" }
        val entry = bundle.manifest.onnx
            ?: throw LiteNlpException(Problem.RUNTIME_MISSING, "${bundle.directory}: expected ONNX graphs, found none")
        val onnx = try {
            load()
        } catch (error: LinkageError) {
            val found = "found none that can be loaded: ${error.message}"
            throw LiteNlpException(Problem.RUNTIME_MISSING, "expected the library of ONNX Runtime, $found", error)
        }
        val graphs = Graphs(onnx, bundle, entry, threads)
        val encode = graphs.encode()
        val beam = encode.closingOnFailure { graphs.beam() }
        val engine = OnnxEngine(onnx, bundle.manifest, entry.newPrefix, encode, beam, graphs::decodeStep)
        engine.closingOnFailure { engine.tryOut() }
        return engine
    }

    /** Opens the graphs of a bundle, each checked against the manifest. */
    private class Graphs<T : Any>(
        private val onnx: OnnxRuntime<T>,
        private val bundle: InstalledBundle,
        private val entry: OnnxEntry,
        private val threads: Int,
    ) {
        fun encode() = open(entry.encode) { OnnxNames.checkEncode(bundle.manifest, it) }

        fun beam() = open(entry.beam) { OnnxNames.checkBeam(bundle.manifest, entry.newPrefix, it) }

        fun decodeStep() = open(entry.decodeStep) { OnnxNames.checkDecodeStep(bundle.manifest, entry.newPrefix, it) }

        private fun open(file: String, check: (OnnxNames.Graph) -> Unit): OnnxGraph<T> =
            onnx.reporting(Problem.RUNTIME_REFUSED, "ONNX Runtime does not take a graph of ${bundle.directory}") {
                val graph = onnx.open(bundle.file(file), threads)
                graph.closingOnFailure { check(graph.names) }
                graph
            }
    }
}

/** Runs [action]; closes this if it throws. */
internal inline fun <R> AutoCloseable.closingOnFailure(action: () -> R): R = try {
    action()
} catch (error: Throwable) {
    close()
    throw error
}

/** Runs [action]; what ONNX Runtime reports becomes a [LiteNlpException]. */
internal inline fun <R> OnnxRuntime<*>.reporting(problem: Problem, what: String, action: () -> R): R = try {
    action()
} catch (error: Exception) {
    if (!failure.isInstance(error)) throw error
    // A refused allocation has no code of its own.
    val noMemory = error.message.orEmpty().let { "bad_alloc" in it || "Failed to allocate memory" in it }
    throw LiteNlpException(if (noMemory) Problem.OUT_OF_MEMORY else problem, "$what: ${error.message}", error)
} catch (error: OutOfMemoryError) {
    throw LiteNlpException(Problem.OUT_OF_MEMORY, "$what: ${error.message}", error)
}
