package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.metrics.manifest
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test

/** The bundle of these tests takes 16 source tokens of 20 types and 40 steps. */
class SourceBatchTest {
    private val manifest = manifest()

    private fun refusal(sources: List<IntArray>, capacity: Int = 40): LiteNlpException =
        assertThrows(LiteNlpException::class.java) { SourceBatch.of(manifest, sources, capacity) }

    @Test
    fun sourcesArePaddedOnTheRight() {
        val batch = SourceBatch.of(manifest, listOf(intArrayOf(4, 2), intArrayOf(5, 6, 2), intArrayOf(2)), 40)
        assertEquals(3, batch.rows)
        assertEquals(3, batch.length)
        assertEquals(listOf<Long>(4, 2, 0, 5, 6, 2, 2, 0, 0), batch.tokens.toList())
        assertEquals(listOf(true, true, false, true, true, true, true, false, false), batch.mask.toList())
    }

    @Test
    fun boundsAreHeld() {
        SourceBatch.of(manifest, List(8) { IntArray(16) { 19 } }, 1)
        val long = refusal(listOf(IntArray(17) { 3 }))
        assertEquals(Problem.TOO_LARGE, long.problem)
        assertEquals("source: the bundle was exported for at most 16 tokens, end mark included, found 17", long.message)
        for (capacity in listOf(0, 41)) {
            val error = refusal(listOf(intArrayOf(2)), capacity)
            assertEquals(Problem.TOO_LARGE, error.problem)
            assertEquals("capacity: the bundle was exported for 1 to 40 decoder steps, found $capacity", error.message)
        }
    }

    @Test
    fun tokensOfAnotherVocabularyAreTold() {
        for (token in listOf(-1, 20)) {
            val error = refusal(listOf(intArrayOf(3, token, 2)))
            assertEquals(Problem.OTHER_TOKENIZER, error.problem)
            assertEquals("source: expected token ids 0 to 19, found $token", error.message)
        }
    }

    @Test
    fun aBatchNeedsRowsAndARowItsEndMark() {
        for (sources in listOf(emptyList(), listOf(intArrayOf(2), intArrayOf()))) {
            assertThrows(IllegalArgumentException::class.java) { SourceBatch.of(manifest, sources, 40) }
        }
    }
}
