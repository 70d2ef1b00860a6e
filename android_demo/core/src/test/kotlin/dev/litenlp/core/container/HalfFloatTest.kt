package dev.litenlp.core.container

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class HalfFloatTest {
    @Test
    fun `all 65536 numbers have the value that IEEE 754 gives them`() {
        for (half in 0..0xFFFF) {
            val sign = if (half < 0x8000) 1.0 else -1.0
            val exponent = (half shr 10) % 32
            val fraction = half % 1024
            val value = halfToFloat(half)
            when {
                exponent == 31 && fraction != 0 -> assertTrue(value.isNaN())
                exponent == 31 -> assertEquals(sign * Double.POSITIVE_INFINITY, value.toDouble())
                exponent == 0 -> assertEquals(sign * Math.scalb(fraction.toDouble(), -24), value.toDouble())
                else -> assertEquals(sign * Math.scalb(1024.0 + fraction, exponent - 25), value.toDouble())
            }
        }
    }
}
