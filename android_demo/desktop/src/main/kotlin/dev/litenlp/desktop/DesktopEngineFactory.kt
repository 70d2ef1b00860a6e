package dev.litenlp.desktop

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtException
import ai.onnxruntime.OrtLoggingLevel
import ai.onnxruntime.OrtSession
import ai.onnxruntime.TensorInfo
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.engine.OnnxFactory
import dev.litenlp.core.engine.OnnxGraph
import dev.litenlp.core.engine.OnnxNames
import dev.litenlp.core.engine.OnnxRuntime
import dev.litenlp.core.engine.OnnxShape
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.DoubleBuffer
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

    override fun newDoubles(values: DoubleArray, shape: LongArray): OnnxTensor =
        OnnxTensor.createTensor(environment, DoubleBuffer.wrap(values), shape)

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

    override fun shape(tensor: OnnxTensor): LongArray = tensor.info.shape

    override fun readFloats(tensor: OnnxTensor, target: FloatArray) {
        expect(tensor, OnnxJavaType.FLOAT, target.size)
        FloatBuffer.wrap(target).put(tensor.floatBuffer)
    }

    override fun readDoubles(tensor: OnnxTensor, target: DoubleArray) {
        expect(tensor, OnnxJavaType.DOUBLE, target.size)
        DoubleBuffer.wrap(target).put(tensor.doubleBuffer)
    }

    override fun readLongs(tensor: OnnxTensor, target: LongArray) {
        expect(tensor, OnnxJavaType.INT64, target.size)
        LongBuffer.wrap(target).put(tensor.longBuffer)
    }

    override fun readBooleans(tensor: OnnxTensor, target: BooleanArray) {
        expect(tensor, OnnxJavaType.BOOL, target.size)
        val bytes = tensor.byteBuffer
        for (index in target.indices) target[index] = bytes.get(index) != 0.toByte()
    }

    private fun expect(tensor: OnnxTensor, type: OnnxJavaType, elements: Int) {
        val info = tensor.info
        if (info.type != type || info.numElements != elements.toLong()) {
            throw OrtException("expected a tensor of $elements elements of type $type, found $info")
        }
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

    override fun inputShape(name: String): OnnxShape {
        val info = session.inputInfo.getValue(name).info as TensorInfo
        return OnnxShape(info.shape, info.dimensionNames.asList())
    }

    override fun run(tensors: Map<String, OnnxTensor>): List<OnnxTensor> {
        val result = session.run(names.inputs.associateWith { tensors.getValue(it) })
        return names.outputs.map { result.get(it).get() as OnnxTensor }
    }

    override fun close() = session.close()
}
