package dev.litenlp.core.bundle

/** A run of [count] floats of a prediction. */
internal interface Values {
    val count: Long

    /** Writes the values [from] until [from] + [length], little-endian, to the start of [target]. */
    fun write(from: Long, length: Int, target: ByteArray)
}

internal class RowMajor(private val values: FloatArray) : Values {
    override val count: Long get() = values.size.toLong()

    override fun write(from: Long, length: Int, target: ByteArray) {
        for (index in 0 until length) put(target, index, values[from.toInt() + index])
    }
}

/** A matrix of [rows] and [columns], stored row by row and written column by column. */
internal class TransposedMatrix(private val values: FloatArray, private val rows: Int, private val columns: Int) : Values {
    override val count: Long get() = values.size.toLong()

    override fun write(from: Long, length: Int, target: ByteArray) {
        var column = (from / rows).toInt()
        var row = (from % rows).toInt()
        for (index in 0 until length) {
            put(target, index, values[row * columns + column])
            if (++row == rows) {
                row = 0
                column++
            }
        }
    }
}

/**
 * The table that [Part.Sinusoid] describes. Every step is a double rounded to a float, which hides what the last bits of sines
 * and exponentials owe to their implementation.
 */
internal class SinusoidTable(rows: Int, private val columns: Int) : Values {
    override val count: Long = rows.toLong() * columns

    private val half = columns / 2
    private val rates = (-StrictMath.log(10_000.0) / maxOf(half - 1, 1)).toFloat().let { scale ->
        FloatArray(half) { StrictMath.exp((it * scale).toDouble()).toFloat() }
    }

    override fun write(from: Long, length: Int, target: ByteArray) {
        for (index in 0 until length) {
            val row = (from + index) / columns
            val column = ((from + index) % columns).toInt()
            put(target, index, value(row.toFloat(), column))
        }
    }

    private fun value(position: Float, column: Int): Float {
        if (column == 2 * half) return 0f
        val angle = (position * rates[column % half]).toDouble()
        return (if (column < half) StrictMath.sin(angle) else StrictMath.cos(angle)).toFloat()
    }
}

private fun put(target: ByteArray, index: Int, value: Float) {
    val bits = value.toRawBits()
    val at = 4 * index
    target[at] = bits.toByte()
    target[at + 1] = (bits ushr 8).toByte()
    target[at + 2] = (bits ushr 16).toByte()
    target[at + 3] = (bits ushr 24).toByte()
}
