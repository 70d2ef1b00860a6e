package dev.litenlp.app.engine

import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.engine.OnnxFactory
import dev.litenlp.core.engine.OnnxGraph
import dev.litenlp.core.engine.OnnxRuntime
import java.io.File

/** Opens bundles in the ONNX Runtime that comes with the app. */
object OnnxEngineFactory : OnnxFactory<Long>() {
    override fun load(): OnnxRuntime<Long> {
        OrtNative.load()
        return NativeRuntime
    }
}

/** ONNX Runtime's C API; tensors are handles. */
private object NativeRuntime : OnnxRuntime<Long> {
    override val version: String get() = OrtNative.version()
    override val failure: Class<out Exception> get() = OrtException::class.java

    override fun open(graph: File, threads: Int): OnnxGraph<Long> = OrtSession(graph, threads)

    override fun newLongs(values: LongArray, shape: LongArray): Long = OrtNative.newLongs(values, shape)

    override fun newDoubles(values: DoubleArray, shape: LongArray): Long = OrtNative.newDoubles(values, shape)

    override fun newBooleans(values: BooleanArray, shape: LongArray): Long = OrtNative.newBooleans(values, shape)

    override fun newZeros(type: ElementType, shape: LongArray): Long = OrtNative.newZeros(
        when (type) {
            ElementType.FLOAT32 -> OrtNative.FLOAT32
            ElementType.INT64 -> OrtNative.INT64
            ElementType.BOOL -> OrtNative.BOOL
        },
        shape,
    )

    override fun shape(tensor: Long): LongArray = OrtNative.shape(tensor)

    override fun readFloats(tensor: Long, target: FloatArray) = OrtNative.readFloats(tensor, target)

    override fun readDoubles(tensor: Long, target: DoubleArray) = OrtNative.readDoubles(tensor, target)

    override fun readLongs(tensor: Long, target: LongArray) = OrtNative.readLongs(tensor, target)

    override fun readBooleans(tensor: Long, target: BooleanArray) = OrtNative.readBooleans(tensor, target)

    override fun gatherRows(tensor: Long, rows: IntArray): Long = OrtNative.gatherRows(tensor, rows)

    override fun release(tensor: Long) = OrtNative.release(tensor)
}
