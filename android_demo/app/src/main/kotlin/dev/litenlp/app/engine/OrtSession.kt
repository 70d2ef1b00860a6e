package dev.litenlp.app.engine

import dev.litenlp.core.engine.OnnxNames
import java.io.File

/** A graph in ONNX Runtime, with the names of its inputs and outputs. One thread at a time. */
internal class OrtSession(graph: File, threads: Int) : AutoCloseable {
    private var handle = OrtNative.openSession(graph.path.toByteArray(Charsets.UTF_8), threads)

    private val inputs: List<String>

    /** The inputs that the graph's optimizer has left, and the outputs. */
    val names: OnnxNames.Graph

    init {
        try {
            inputs = OrtNative.inputNames(handle).asList()
            names = OnnxNames.Graph(inputs, OrtNative.outputNames(handle).asList())
        } catch (error: Throwable) {
            close()
            throw error
        }
    }

    /**
     * Runs the graph.
     *
     * @param tensors Handles by name, of all inputs at least; they stay the caller's.
     * @return A handle for each of the outputs, the caller's from now on.
     */
    fun run(tensors: Map<String, Long>): LongArray {
        check(handle != 0L) { "session: closed" }
        return OrtNative.run(handle, LongArray(inputs.size) { tensors.getValue(inputs[it]) })
    }

    override fun close() {
        if (handle != 0L) OrtNative.closeSession(handle)
        handle = 0
    }
}
