package dev.litenlp.desktop

import ai.onnxruntime.OnnxJavaType
import ai.onnxruntime.OnnxTensor
import ai.onnxruntime.OrtEnvironment
import ai.onnxruntime.OrtSession
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import java.nio.LongBuffer

/** Tensors by name, owned: one that is replaced, left out or closed is given back to ONNX Runtime. */
internal class Tensors(private val environment: OrtEnvironment) : AutoCloseable {
    private val tensors = LinkedHashMap<String, OnnxTensor>()

    fun put(name: String, values: LongArray, shape: LongArray) =
        replace(name, OnnxTensor.createTensor(environment, LongBuffer.wrap(values), shape))

    fun put(name: String, values: BooleanArray, shape: LongArray) {
        val bytes = newBuffer(values.size)
        for (value in values) bytes.put(if (value) 1 else 0)
        bytes.flip()
        replace(name, OnnxTensor.createTensor(environment, bytes, shape, OnnxJavaType.BOOL))
    }

    fun putZeros(name: String, type: OnnxJavaType, shape: LongArray) {
        val bytes = newBuffer(Math.toIntExact(shape.fold(type.size.toLong(), Math::multiplyExact)))
        replace(name, OnnxTensor.createTensor(environment, bytes, shape, type))
    }

    /** Takes over the tensors of [result], without [prefix] where their names have it. */
    fun putAll(result: OrtSession.Result, prefix: String = "") {
        for ((name, value) in result) replace(name.removePrefix(prefix), value as OnnxTensor)
    }

    /** Those named [names]; they stay owned by this. */
    fun only(names: Set<String>): Map<String, OnnxTensor> = names.associateWith { tensors.getValue(it) }

    /** A copy of a tensor's values. */
    fun floats(name: String): FloatBuffer = tensors.getValue(name).floatBuffer

    /** Drops all others than [names]. */
    fun retain(names: Collection<String>) {
        for (name in tensors.keys - names.toSet()) tensors.remove(name)?.close()
    }

    /** Makes row i of these tensors what row `rows[i]` was; if that fails, all stay as they are. */
    fun gather(names: Collection<String>, rows: IntArray) {
        val made = Tensors(environment)
        made.use {
            for (name in names) made.replace(name, gathered(tensors.getValue(name), rows))
            for (name in names) replace(name, made.tensors.getValue(name))
            made.tensors.clear()
        }
    }

    private fun gathered(tensor: OnnxTensor, rows: IntArray): OnnxTensor {
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

    private fun replace(name: String, tensor: OnnxTensor) {
        tensors.put(name, tensor)?.close()
    }

    override fun close() {
        tensors.values.forEach { it.close() }
        tensors.clear()
    }

    private fun newBuffer(bytes: Int): ByteBuffer = ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())
}
