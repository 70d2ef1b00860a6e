package dev.litenlp.core.search

import kotlin.math.abs
import kotlin.math.exp
import kotlin.math.ln
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The parts of a step, each against its plain definition. */
class HypothesesTest {
    @Test
    fun exponentialsAreTheNearestOfSinglePrecision() {
        var x = -104f
        var values = 0
        var inexact = 0
        while (x <= 0f) {
            val expected = exp(x.toDouble()).toFloat()
            val found = exponential(x)
            assertTrue(abs(found - expected) <= Math.ulp(expected)) { "e^$x: expected $expected, found $found" }
            if (found != expected) inexact++
            values++
            x += 0.00037f
        }
        assertEquals(1f, exponential(0f))
        assertTrue(inexact * 1000 < values) { "expected that nearly all of $values are exact, found $inexact that are not" }
    }

    @Test
    fun rowsAreRankedBestFirstAndEqualOnesById() {
        val generator = java.util.Random(1)
        for (vocabSize in listOf(4, 5, 17, 300)) {
            for (beamSize in listOf(1, 2, 3, 8)) {
                val rows = RowTokens(vocabSize, beamSize)
                // Few values, so that most rows have equal ones at every place.
                val logits = FloatArray(3 * vocabSize) { generator.nextInt(6).toFloat() - 3 }
                for (row in 0 until 3) {
                    rows.rank(logits, row * vocabSize, BlockedTokens(vocabSize, 0))
                    val expected = (3 until vocabSize).sortedByDescending { logits[row * vocabSize + it] }.take(beamSize)
                    assertEquals(expected, rows.tokens.toList())
                    assertEquals(expected.map { logits[row * vocabSize + it] }, rows.logits.toList())
                    val sum = (0 until vocabSize).sumOf { exp(logits[row * vocabSize + it].toDouble()) }
                    assertEquals(ln(sum), rows.normalizer, 1e-7)
                }
            }
        }
    }

    @Test
    fun largeLogitsDoNotOverflow() {
        for (place in 0 until 6) {
            val rows = RowTokens(6, 2)
            rows.rank(FloatArray(6) { if (it == place) 300f else -300f }, 0, BlockedTokens(6, 0))
            assertEquals(300.0, rows.normalizer)
        }
    }

    @Test
    fun blockedTokensAreRankedLastButTakePartInTheProbabilities() {
        val logits = floatArrayOf(9f, 9f, 1f, 5f, 4f, 3f, 2f)
        val blocked = BlockedTokens(7, 1).apply { read(intArrayOf(6, 3, 5), 1, 2) }
        val rows = RowTokens(7, 3)
        rows.rank(logits, 0, blocked)
        assertArrayEquals(intArrayOf(4, 6), rows.tokens.copyOf(2))
        assertArrayEquals(floatArrayOf(4f, 2f, Float.NEGATIVE_INFINITY), rows.logits)
        assertEquals(ln(logits.sumOf { exp(it.toDouble()) }), rows.normalizer, 1e-6)
        assertArrayEquals(floatArrayOf(9f, 9f, 1f, 5f, 4f, 3f, 2f), logits)
    }

    @Test
    fun repeatedNgrams() {
        val history = intArrayOf(0, 3, 4, 3, 4, 3)
        fun blocked(size: Int, length: Int = 5): List<Int> {
            val tokens = BlockedTokens(9, size).apply { read(history, 1, length) }
            return (0 until 9).filter { it in tokens }
        }
        assertEquals(listOf(4), blocked(2))
        assertEquals(listOf(4), blocked(3))
        assertEquals(listOf(3, 4), blocked(1))
        assertEquals(emptyList<Int>(), blocked(5))
        assertEquals(emptyList<Int>(), blocked(6))
        assertEquals(emptyList<Int>(), blocked(2, length = 2))
        assertEquals(emptyList<Int>(), blocked(0))
    }

    @Test
    fun theLastRowReadIsTheOneThatCounts() {
        val tokens = BlockedTokens(9, 1)
        tokens.read(intArrayOf(3, 4), 0, 2)
        tokens.read(intArrayOf(5), 0, 1)
        assertEquals(listOf(5), (0 until 9).filter { it in tokens })
    }

    @Test
    fun theLengthPenaltyIsThatOfGnmt() {
        assertEquals(1.0, lengthPenalty(1, 0.6))
        assertEquals(1.0, lengthPenalty(7, 0.0))
        assertEquals(2.0, lengthPenalty(7, 1.0), 1e-12)
        assertEquals(2.0, lengthPenalty(19, 0.5), 1e-12)
    }
}
