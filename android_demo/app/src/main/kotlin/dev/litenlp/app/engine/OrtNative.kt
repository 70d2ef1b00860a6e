package dev.litenlp.app.engine

/**
 * An error that ONNX Runtime reported, or the glue over it. Thrown by native code, which finds the constructor by its signature.
 *
 * @property code `OrtErrorCode` of ONNX Runtime's C API.
 */
internal class OrtException(val code: Int, message: String) : RuntimeException("$message (ONNX Runtime's error $code)")

/**
 * ONNX Runtime's C API as far as a bundle needs it: `native/ort_*.c`.
 *
 * Sessions and tensors are handles, addresses in native memory: each is released exactly once, and never used after. All
 * functions throw [OrtException] but those of which it is said that they cannot fail.
 */
internal object OrtNative {
    /** Element types: `ONNXTensorElementDataType`. */
    const val FLOAT32 = 1
    const val INT64 = 7
    const val BOOL = 9

    /**
     * Loads the libraries, unless they are.
     *
     * @throws LinkageError If one is not there, or does not fit the other.
     */
    fun load() {
        System.loadLibrary("onnxruntime")
        System.loadLibrary("litenlp_ort")
    }

    /** ONNX Runtime's version, such as `1.24.3`. */
    @JvmStatic
    external fun version(): String

    /**
     * Opens a graph for the CPU; its external data is mapped from the files beside it.
     *
     * @param path In UTF-8.
     * @param threads Threads of one operator, at least 1.
     */
    @JvmStatic
    external fun openSession(path: ByteArray, threads: Int): Long

    /** Closes a session; cannot fail. */
    @JvmStatic
    external fun closeSession(session: Long)

    /** The graph's inputs: those that its optimizer has left. */
    @JvmStatic
    external fun inputNames(session: Long): Array<String>

    /** The graph's outputs. */
    @JvmStatic
    external fun outputNames(session: Long): Array<String>

    /** Sizes of an input's dimensions, the input being given by its place in [inputNames]; -1 where they are not fixed. */
    @JvmStatic
    external fun inputSizes(session: Long, input: Int): LongArray

    /** What the graph calls the sizes that it does not fix, for each dimension; empty where it has no word for it. */
    @JvmStatic
    external fun inputSymbols(session: Long, input: Int): Array<String>

    /**
     * Runs a graph.
     *
     * @param inputs A tensor for each of [inputNames]; they stay the caller's.
     * @return A tensor for each of [outputNames], to be released.
     */
    @JvmStatic
    external fun run(session: Long, inputs: LongArray): LongArray

    /** A tensor with these elements, row-major, to be released. */
    @JvmStatic
    external fun newLongs(values: LongArray, shape: LongArray): Long

    /** A tensor with these elements, row-major, to be released. */
    @JvmStatic
    external fun newDoubles(values: DoubleArray, shape: LongArray): Long

    /** A tensor with these elements, row-major, to be released. */
    @JvmStatic
    external fun newBooleans(values: BooleanArray, shape: LongArray): Long

    /** A tensor of zeros of [FLOAT32], [INT64] or [BOOL], to be released. */
    @JvmStatic
    external fun newZeros(type: Int, shape: LongArray): Long

    /** Copies a float tensor into an array of as many elements. */
    @JvmStatic
    external fun readFloats(tensor: Long, target: FloatArray)

    /** Copies a tensor of 64-bit floats into an array of as many elements. */
    @JvmStatic
    external fun readDoubles(tensor: Long, target: DoubleArray)

    /** Copies a tensor of 64-bit integers into an array of as many elements. */
    @JvmStatic
    external fun readLongs(tensor: Long, target: LongArray)

    /** Copies a bool tensor into an array of as many elements. */
    @JvmStatic
    external fun readBooleans(tensor: Long, target: BooleanArray)

    /** Sizes of a tensor's dimensions. */
    @JvmStatic
    external fun shape(tensor: Long): LongArray

    /** A tensor whose row `i` is row `rows[i]` of the given one, to be released. */
    @JvmStatic
    external fun gatherRows(tensor: Long, rows: IntArray): Long

    /** Releases a tensor; cannot fail. */
    @JvmStatic
    external fun release(tensor: Long)
}
