package dev.litenlp.core.metrics

import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

/** Expected figures come from `numpy.percentile` and its kin. */
class SummaryTest {
    private fun check(values: DoubleArray, p50: Double, p90: Double, mean: Double) {
        val found = Summary.of(values)
        assertEquals(p50, found.p50)
        assertEquals(p90, found.p90)
        assertEquals(mean, found.mean, 1e-12)
        assertEquals(values.minOrNull(), found.min)
        assertEquals(values.maxOrNull(), found.max)
    }

    @Test
    fun figuresAreThoseOfNumpy() {
        check(doubleArrayOf(3.5), 3.5, 3.5, 3.5)
        check(doubleArrayOf(1.0, 2.0), 1.5, 1.9, 1.5)
        check(doubleArrayOf(4.0, 1.0, 3.0, 2.0), 2.5, 3.7, 2.5)
        check(doubleArrayOf(0.1, 0.2, 0.3, 10.0, 7.5, -1.0), 0.25, 8.75, 2.85)
        // To the last bit: interpolated from the nearer neighbour.
        check(doubleArrayOf(4.25, 7.62, 4.21), 4.25, 6.946000000000001, 5.36)
        val many = doubleArrayOf(
            5.503, 7.913, 3.199, 11.942, 2.74, 2.954, 0.319, 1.56, 3.174, 6.77, 4.519, 2.841, 9.379, 2.638, 3.428, 2.021, 4.408,
            5.878, 2.871, 8.692, 1.537, 12.234, 6.096,
        )
        check(many, 3.428, 9.2416, 4.896347826086957)
    }

    @Test
    fun valuesKeepTheirOrder() {
        val values = doubleArrayOf(3.0, 1.0, 2.0)
        Summary.of(values)
        assertArrayEquals(doubleArrayOf(3.0, 1.0, 2.0), values)
    }

    @Test
    fun nothingHasNoSummary() {
        assertThrows(IllegalArgumentException::class.java) { Summary.of(DoubleArray(0)) }
    }
}
