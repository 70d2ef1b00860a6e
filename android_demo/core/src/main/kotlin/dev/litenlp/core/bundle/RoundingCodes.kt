package dev.litenlp.core.bundle

import dev.litenlp.core.container.Container
import java.io.InputStream
import kotlin.math.abs

/** Bytes of a prediction, [count] of them. */
internal interface ByteRun {
    val count: Long

    /** Writes the bytes [from] until [from] + [length] to the start of [target]. */
    fun write(from: Long, length: Int, target: ByteArray)
}

/**
 * What was chosen for the rows, or the blocks of [BLOCK] in a row, of a matrix of which members have integers, a byte each.
 *
 * In 8 bits the largest magnitude of a row is so many times its scale. In 4 bits a code is a place in [CUTS], or from [STEP] on
 * what the largest magnitude of the row is so many times.
 */
internal class RoundingCodes private constructor(
    private val rows: Int, private val columns: Int, private val bits: Int, private val codes: ByteArray,
) {
    private val blocks = if (bits == 8) 1 else columns / BLOCK

    /** One for each code; made when the matrix is first decoded. */
    private var scales: FloatArray? = null

    /** Bytes of a part; its rows are checked. */
    fun integerBytes(part: Part.OfIntegers, where: String): Long {
        if (part.transposed && bits == 4) {
            throw misfit("$where: ${part.tensor}: expected integers of 8 bits to transpose, found some of 4")
        }
        return checkedRows(part.first, part.end, part.tensor, where) * columns * bits / 8
    }

    /** Bytes of a part; its rows are checked. */
    fun scaleBytes(part: Part.OfScales, where: String): Long =
        checkedRows(part.first, part.end, part.tensor, where) * blocks * (if (part.bf16) 2 else 4)

    private fun checkedRows(first: Long, end: Long, tensor: String, where: String): Long {
        if (first > end || end > rows) throw misfit("$where: $tensor: expected rows up to $rows, found $first to $end")
        if ((end - first) * Limits.MAX_CUTS < rows) {
            throw misfit("$where: $tensor: expected at least a ${Limits.MAX_CUTS}th of $rows rows, found ${end - first}")
        }
        return end - first
    }

    /** Integers of the [matrix], row-major as the container has it, and scaled if it is. */
    fun integers(matrix: FloatArray, part: Part.OfIntegers): ByteRun {
        val scales = scalesOf { matrix }
        val first = part.first.toInt()
        val height = part.end.toInt() - first
        fun integer(row: Int, column: Int): Int {
            val scale = scales[row * blocks + (if (bits == 8) 0 else column / BLOCK)]
            val nearest = Math.rint((matrix[row * columns + column] / scale).toDouble()).toInt()
            return if (bits == 8) nearest.coerceIn(-LARGEST, LARGEST) else nearest.coerceIn(LEAST, GREATEST)
        }
        return object : ByteRun {
            override val count = height.toLong() * columns * bits / 8

            override fun write(from: Long, length: Int, target: ByteArray) {
                for (index in 0 until length) {
                    val at = (from + index).toInt()
                    target[index] = when {
                        bits == 4 -> {
                            val row = first + 2 * at / columns
                            val column = 2 * at % columns
                            (integer(row, column) - LEAST) or ((integer(row, column + 1) - LEAST) shl 4)
                        }
                        part.transposed -> integer(first + at % height, at / height)
                        else -> integer(first + at / columns, at % columns)
                    }.toByte()
                }
            }
        }
    }

    /** Scales of those integers; [matrix] is asked for if they are not known yet. */
    fun scales(part: Part.OfScales, matrix: () -> FloatArray): ByteRun {
        val scales = scalesOf(matrix)
        val size = if (part.bf16) 2 else 4
        return object : ByteRun {
            override val count = (part.end - part.first) * blocks * size

            override fun write(from: Long, length: Int, target: ByteArray) {
                for (index in 0 until length) {
                    val at = (from + index).toInt()
                    val scale = scales[part.first.toInt() * blocks + at / size]
                    val bits = if (part.bf16) toBf16(scale).toRawBits() ushr 16 else scale.toRawBits()
                    target[index] = (bits ushr (8 * (at % size))).toByte()
                }
            }
        }
    }

    private fun scalesOf(matrix: () -> FloatArray): FloatArray = scales ?: computeScales(matrix()).also { scales = it }

    private fun computeScales(matrix: FloatArray): FloatArray {
        val made = FloatArray(rows * blocks)
        val width = columns / maxOf(blocks, 1)
        val largest = FloatArray(blocks)
        for (row in 0 until rows) {
            for (block in 0 until blocks) {
                val from = row * columns + block * width
                largest[block] = 0f
                for (at in from until from + width) largest[block] = maxOf(largest[block], abs(matrix[at]))
            }
            for (block in 0 until blocks) {
                val code = codes[row * blocks + block].toInt() and 0xFF
                val scale = when {
                    bits == 8 -> largest[block] / code
                    code >= STEP -> largest.max() / (code - STEP)
                    else -> toBf16(largest[block] / CUTS[code])
                }
                // Where all values are zero, any scale is right.
                made[row * blocks + block] = if (scale == 0f) 1f else scale
            }
        }
        return made
    }

    companion object {
        private const val BLOCK = 32
        private const val LARGEST = 127
        private const val LEAST = -8
        private const val GREATEST = 7
        private const val STEP = 128

        /** What the largest magnitude of a block may be divided by for its scale, by code. */
        private val CUTS = floatArrayOf(7f, 7.25f, 7.5f, 7.75f, 8f, 8.5f, 9f, 9.5f)

        /**
         * Reads what was chosen for all matrices, by name.
         *
         * @param rounded [Recipes.rounded].
         * @param source The file that [Packed.codes] names.
         * @param file Its name, for messages.
         * @throws dev.litenlp.core.LiteNlpException `ALTERED` if the file and the matrices of the container do not fit.
         */
        fun read(rounded: Map<String, Int>, source: InputStream, file: String, container: Container): Map<String, RoundingCodes> {
            val shapes = rounded.mapValues { (name, bits) -> matrixShape(name, bits, file, container) }
            val counts = shapes.mapValues { (name, shape) -> count(shape, rounded.getValue(name)) }
            return InflatedStream(source, file, counts.values.sumOf { it.toLong() }).use { stream ->
                val read = shapes.mapValues { (name, shape) ->
                    val codes = ByteArray(counts.getValue(name)).also { stream.fill(it, it.size) }
                    val bits = rounded.getValue(name)
                    codes.firstOrNull { !known(it.toInt() and 0xFF, bits) }?.let {
                        throw misfit("$file: $name: expected codes of $bits bits, found ${it.toInt() and 0xFF}")
                    }
                    RoundingCodes(shape[0], shape[1], bits, codes)
                }
                stream.expectEnd()
                read
            }
        }

        private fun count(shape: IntArray, bits: Int): Int = if (bits == 8) shape[0] else shape[0] * (shape[1] / BLOCK)

        private fun known(code: Int, bits: Int): Boolean =
            if (bits == 8) code in 1..LARGEST else code < CUTS.size || code in STEP + 1..STEP + GREATEST

        private fun matrixShape(name: String, bits: Int, where: String, container: Container): IntArray {
            val tensor = container.tensor(name) ?: throw misfit("$where: expected a tensor of the container, found '$name'")
            if (tensor.isInteger || tensor.shape.size != 2 || (bits == 4 && tensor.shape[1] % BLOCK != 0)) {
                throw misfit(
                    "$where: $name: expected an fp32 matrix with ${if (bits == 4) "rows of blocks of $BLOCK" else "rows"}, found " +
                        "${if (tensor.isInteger) "int64" else "fp32"} of shape ${tensor.shape.contentToString()}",
                )
            }
            return tensor.shape
        }

        /** The nearest number of which fp32 needs the upper half alone; of two as near, the one with an even last bit. */
        private fun toBf16(value: Float): Float {
            val bits = value.toRawBits()
            return Float.fromBits((bits + 0x7FFF + ((bits ushr 16) and 1)) and 0xFFFF.inv())
        }
    }
}
