package dev.litenlp.core.metrics

import kotlin.math.floor

/**
 * Some measurements in five figures, in the unit of the measurements.
 *
 * @property p50 Median; like [p90] interpolated linearly between neighbours, as NumPy does by default.
 * @property p90 What nine in ten do not exceed.
 */
data class Summary(val p50: Double, val p90: Double, val mean: Double, val min: Double, val max: Double) {
    companion object {
        /**
         * Sums up [values], in any order, which are left as they are.
         *
         * @throws IllegalArgumentException If there are none.
         */
        fun of(values: DoubleArray): Summary {
            require(values.isNotEmpty()) { "summary: expected at least one value, found none" }
            val sorted = values.sortedArray()
            return Summary(
                p50 = quantile(sorted, 0.5),
                p90 = quantile(sorted, 0.9),
                mean = values.sum() / values.size,
                min = sorted.first(),
                max = sorted.last(),
            )
        }

        private fun quantile(sorted: DoubleArray, fraction: Double): Double {
            val place = fraction * (sorted.size - 1)
            val below = floor(place).toInt()
            val above = minOf(below + 1, sorted.size - 1)
            val weight = place - below
            val difference = sorted[above] - sorted[below]
            // From the nearer neighbour, which keeps the result between the two in floating point.
            return if (weight < 0.5) sorted[below] + difference * weight else sorted[above] - difference * (1 - weight)
        }
    }
}
