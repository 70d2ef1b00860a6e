package dev.litenlp.app.engine

import dev.litenlp.core.engine.OnnxGraph
import dev.litenlp.core.engine.OnnxNames
import dev.litenlp.core.engine.OnnxShape
import java.io.File

/** A graph in ONNX Runtime, with the names of its inputs and outputs. One thread at a time. */
internal class OrtSession(graph: File, threads: Int) : OnnxGraph<Long> {
    private var handle = OrtNative.openSession(graph.path.toByteArray(Charsets.UTF_8), threads)

    private val inputs: List<String>

    override val names: OnnxNames.Graph

    init {
        try {
            inputs = OrtNative.inputNames(handle).asList()
            names = OnnxNames.Graph(inputs, OrtNative.outputNames(handle).asList())
        } catch (error: Throwable) {
            close()
            throw error
        }
    }

    override fun inputShape(name: String): OnnxShape {
        check(handle != 0L) { "session: closed" }
        val input = inputs.indexOf(name)
        return OnnxShape(OrtNative.inputSizes(handle, input), OrtNative.inputSymbols(handle, input).asList())
    }

    override fun run(tensors: Map<String, Long>): List<Long> {
        check(handle != 0L) { "session: closed" }
        return OrtNative.run(handle, LongArray(inputs.size) { tensors.getValue(inputs[it]) }).asList()
    }

    override fun close() {
        if (handle != 0L) OrtNative.closeSession(handle)
        handle = 0
    }
}
