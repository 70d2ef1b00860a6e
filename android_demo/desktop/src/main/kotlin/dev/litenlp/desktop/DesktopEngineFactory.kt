package dev.litenlp.desktop

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtLoggingLevel
import ai.onnxruntime.OrtSession
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.engine.OnnxFactory
import dev.litenlp.core.engine.OnnxGraph
import dev.litenlp.core.engine.OnnxNames
import dev.litenlp.core.engine.OnnxRuntime
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.LongBuffer

/** Opens bundles in ONNX Runtime's Java API, on a desktop. */
object DesktopEngineFactory : OnnxFactory<OnnxTensor>() {
    override fun load(): OnnxRuntime<OnnxTensor> =
        JavaRuntime(OrtEnvironment.getEnvironment(OrtLoggingLevel.ORT_LOGGING_LEVEL_ERROR))
}

/** ONNX Runtime's Java API. */
private class JavaRuntime(private val environment: OrtEnvironment) : OnnxRuntime<OnnxTensor> {
    override val version: String get() = environment.version
    override val failure: Class<out Exception> get() = OrtException::class.java

    override fun open(graph: File, threads: Int): OnnxGraph<OnnxTensor> = OrtSession.SessionOptions().use { options ->
        options.setIntraOpNumThreads(threads)
        options.setInterOpNumThreads(1)
        JavaGraph(environment.createSession(graph.path, options))
    }

    override fun newLongs(values: LongArray, shape: LongArray): OnnxTensor =
        OnnxTensor.createTensor(environment, LongBuffer.wrap(values), shape)

    override fun newBooleans(values: BooleanArray, shape: LongArray): OnnxTensor {
        val bytes = newBuffer(values.size)
        for (index in values.indices) bytes.put(index, if (values[index]) 1 else 0)
        return OnnxTensor.createTensor(environment, bytes, shape, OnnxJavaType.BOOL)
    }

    override fun newZeros(type: ElementType, shape: LongArray): OnnxTensor {
        val javaType = when (type) {
            ElementType.FLOAT32 -> OnnxJavaType.FLOAT
            ElementType.INT64 -> OnnxJavaType.INT64
            ElementType.BOOL -> OnnxJavaType.BOOL
        }
        val bytes = newBuffer(Math.toIntExact(shape.fold(javaType.size.toLong(), Math::multiplyExact)))
        return OnnxTensor.createTensor(environment, bytes, shape, javaType)
    }

    override fun readFloats(tensor: OnnxTensor, target: FloatArray) {
        val info = tensor.info
        if (info.type != OnnxJavaType.FLOAT || info.numElements != target.size.toLong()) {
            throw OrtException("expected a float tensor of ${target.size} elements, found $info")
        }
        FloatBuffer.wrap(target).put(tensor.floatBuffer)
    }

    override fun gatherRows(tensor: OnnxTensor, rows: IntArray): OnnxTensor {
        val shape = tensor.info.shape.copyOf()
        val source = tensor.byteBuffer
        val rowBytes = source.remaining() / shape[0].toInt()
        val target = newBuffer(rows.size * rowBytes)
        for (row in rows) {
            source.limit((row + 1) * rowBytes)
            source.position(row * rowBytes)
            target.put(source)
        }
        target.flip()
        shape[0] = rows.size.toLong()
        return OnnxTensor.createTensor(environment, target, shape, tensor.info.type)
    }

    override fun release(tensor: OnnxTensor) = tensor.close()

    private fun newBuffer(bytes: Int): ByteBuffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())
}

private class JavaGraph(private val session: OrtSession) : OnnxGraph<OnnxTensor> {
    override val names = OnnxNames.Graph(session.inputNames, session.outputNames)

    override fun run(tensors: Map<String, OnnxTensor>): List<OnnxTensor> {
        val result = session.run(names.inputs.associateWith { tensors.getValue(it) })
        return names.outputs.map { result.get(it).get() as OnnxTensor }
    }

    override fun close() = session.close()
}
