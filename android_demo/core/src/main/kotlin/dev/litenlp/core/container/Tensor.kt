package dev.litenlp.core.container

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.naming

/**
 * One tensor of a [Container], decoded on demand.
 *
 * @property name Its name in the container.
 * @property shape Sizes of its dimensions, at most 8; none for a scalar. Not to be changed.
 */
class Tensor internal constructor(
    val name: String,
    val shape: IntArray,
    private val encoding: Encoding,
    private val bytes: ByteArray,
    private val start: Int,
    private val length: Int,
) {
    /** Number of weights, at most 2^28; 1 for a scalar. */
    val size: Int = shape.fold(1) { product, dimension -> product * dimension }

    /** Whether it holds 64-bit integers, for [decodeLongs], instead of floats. */
    val isInteger: Boolean get() = encoding == Encoding.INT64

    /**
     * Decodes the weights.
     *
     * @return [size] values in row-major order, the caller's own.
     * @throws LiteNlpException `ALTERED` if the payload does not fit its encoding and shape.
     * @throws IllegalStateException If it [isInteger].
     */
    fun decodeFloats(): FloatArray {
        check(!isInteger) { "tensor '$name': expected floats, found integers" }
        return named {
            when (encoding) {
                Encoding.FP32 -> decodeFp32(it, size)
                Encoding.FP16 -> decodeFp16(it, size)
                Encoding.PRUNED -> decodePruned(it, size)
                Encoding.KMEANS -> decodeKmeans(it, size)
                Encoding.KMEANS_RANS -> decodeKmeansRans(it, size)
                Encoding.GRID -> decodeGrid(it, shape)
                else -> decodeGridRans(it, shape)
            }
        }
    }

    /**
     * Decodes the integers; errors as for [decodeFloats].
     *
     * @throws IllegalStateException Unless it [isInteger].
     */
    fun decodeLongs(): LongArray {
        check(isInteger) { "tensor '$name': expected integers, found floats" }
        return named { decodeInt64(it, size) }
    }

    private inline fun <T> named(decode: (Payload) -> T): T =
        naming("tensor '$name' of shape ${shape.contentToString()} in ${encoding.key}") { decode(Payload(bytes, start, start + length)) }
}

/** Encoding of a tensor's weights; [key] as the header names it. */
internal enum class Encoding(val key: String) {
    FP32("fp32"),
    FP16("fp16"),
    INT64("int64"),
    PRUNED("pruned"),
    KMEANS("kmeans"),
    KMEANS_RANS("kmeans+rans"),
    GRID("grid"),
    GRID_RANS("grid+rans"),
}

/** Bytes [at] until [end] of [bytes], read from front to back; says so when they are too few. */
internal class Payload(val bytes: ByteArray, private var at: Int, private val end: Int) {
    /** Bytes not yet taken. */
    val rest: Int get() = end - at

    /** Consumes [size] bytes and returns their start. */
    fun take(size: Long, what: String): Int {
        if (size > rest) throw altered("expected $size bytes of $what, found $rest")
        val start = at
        at += size.toInt()
        return start
    }

    /** A reader of the bits that come next; [skip] consumes what it has read. */
    fun bits(what: String) = BitReader(bytes, at, end, what)

    /** Consumes what [reader], made by [bits], has read. */
    fun skip(reader: BitReader) {
        at += reader.finish()
    }

    /** Consumes the rest, which must be [expected] bytes, and returns its start. */
    fun takeRest(expected: Long): Int {
        if (expected != rest.toLong()) {
            throw altered("expected $expected bytes, found $rest")
        }
        return take(expected, "rest")
    }
}
