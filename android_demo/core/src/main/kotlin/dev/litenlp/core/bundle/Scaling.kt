package dev.litenlp.core.bundle

import dev.litenlp.core.container.Container
import java.io.InputStream
import kotlin.math.abs
import kotlin.math.sqrt

/**
 * Exponents of the square root of 2 by which a tensor of the container is scaled before members are made of it, a byte each.
 *
 * @param rows One for each row, or element of a vector; none where rows are as they were.
 * @param columns One for each column; none likewise.
 */
internal class Scaling private constructor(private val rows: ByteArray, private val columns: ByteArray) {
    /** Scales the [values] of the tensor, row-major, where they are: rows first, then columns, each product rounded to fp32. */
    fun scale(values: FloatArray) {
        if (rows.isNotEmpty()) {
            val width = values.size / rows.size
            for (at in values.indices) values[at] *= power(rows[at / width])
        }
        if (columns.isNotEmpty()) for (at in values.indices) values[at] *= power(columns[at % columns.size])
    }

    companion object {
        private const val MAX_EXPONENT = 126

        /** By exponent, from the least one on. Their powers of 2 are exact. */
        private val POWERS = FloatArray(2 * MAX_EXPONENT + 1) {
            val exponent = it - MAX_EXPONENT
            Math.scalb(if (exponent and 1 == 0) 1f else sqrt(2f), exponent shr 1)
        }

        private fun power(exponent: Byte): Float = POWERS[exponent + MAX_EXPONENT]

        /**
         * Reads the exponents of all tensors, by name.
         *
         * @param scaled [Recipes.scaled].
         * @param source The file that [Packed.exponents] names.
         * @param file Its name, for messages.
         * @throws dev.litenlp.core.LiteNlpException `ALTERED` if the file and the tensors of the container do not fit.
         */
        fun read(
            scaled: Map<String, ScaledSides>, source: InputStream, file: String, container: Container,
        ): Map<String, Scaling> {
            val counts = scaled.mapValues { (name, sides) -> countsOf(name, sides, file, container) }
            val size = counts.values.sumOf { (rows, columns) -> rows.toLong() + columns }
            return InflatedStream(source, file, size).use { stream ->
                val read = counts.mapValues { (name, count) ->
                    val (rows, columns) = count.map { length -> ByteArray(length).also { stream.fill(it, length) } }
                    (rows + columns).firstOrNull { abs(it.toInt()) > MAX_EXPONENT }?.let {
                        throw misfit("$file: $name: expected exponents within $MAX_EXPONENT of zero, found $it")
                    }
                    Scaling(rows, columns)
                }
                stream.expectEnd()
                read
            }
        }

        /** How many exponents there are for rows and for columns. */
        private fun countsOf(name: String, sides: ScaledSides, where: String, container: Container): IntArray {
            val tensor = container.tensors[name]
                ?: throw misfit("$where: expected a tensor of the container by its own name, found '$name'")
            val shape = tensor.shape
            if (tensor.isInteger || (shape.size != 2 && (sides.columns || shape.size != 1))) {
                throw misfit(
                    "$where: $name: expected an fp32 ${if (sides.columns) "matrix" else "matrix or vector"}, found " +
                        "${if (tensor.isInteger) "int64" else "fp32"} of shape ${shape.contentToString()}",
                )
            }
            return intArrayOf(if (sides.rows) shape[0] else 0, if (sides.columns) shape[1] else 0)
        }
    }
}
