package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

/** The search on an engine that takes the steps by itself, against the one on logits. */
class BeamRunTest {
    private val sources = List(9) { index -> IntArray(index * 2 % 7) { 3 + (it + index) % 6 } }

    private fun random(seed: Int = 3, vocabSize: Int = 9) = ModelEngine.random(vocabSize, seed)

    private class Watcher(private val limit: Int = Int.MAX_VALUE) : SearchListener {
        val seen = ArrayList<List<Int>>()

        override fun onStep(best: IntArray) {
            seen += best.toList()
            best.fill(-1)
        }

        override fun isCancelled() = seen.size >= limit
    }

    private fun assertSame(expected: List<Hypothesis>, found: List<Hypothesis>, about: () -> String) {
        assertEquals(expected.map { it.tokens.toList() }, found.map { it.tokens.toList() }, about)
        expected.zip(found).forEach { (one, other) -> assertEquals(one.score, other.score, 1e-9, about) }
    }

    @Test
    fun hypothesesAreThoseOfTheSearchOnLogits() {
        var blocked = 0
        for (beamSize in listOf(1, 2, 3, 5)) {
            for (size in listOf(0, 1, 2, 3)) {
                for (minLength in listOf(0, 6)) {
                    val options = SearchOptions(beamSize, minLength = minLength, noRepeatNgram = size, lengthPenalty = 0.3 * size)
                    repeat(8) { seed ->
                        val expected = search(random(seed, 4 + 2 * seed), sources, options)
                        val engine = BeamDouble(random(seed, 4 + 2 * seed))
                        val about = { "$options seed $seed" }
                        assertSame(expected, search(engine, sources, options), about)
                        assertSame(expected, search(engine, sources, options, Watcher()), about)
                        blocked = maxOf(blocked, engine.calls.maxOf { it.blocked.size / it.tokens.size })
                    }
                }
            }
        }
        assertTrue(blocked > 3) { "expected hypotheses with several blocked tokens, found $blocked at most" }
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 4])
    fun theListenerSeesWhatTheSearchOnLogitsShows(beamSize: Int) {
        for (size in listOf(0, 2)) {
            val options = SearchOptions(beamSize, noRepeatNgram = size)
            val expected = Watcher().also { search(random(), sources.drop(3), options, it) }
            val found = Watcher().also { search(BeamDouble(random()), sources.drop(3), options, it) }
            assertEquals(expected.seen, found.seen)
        }
    }

    @Test
    fun cancellingStopsBeforeTheNextStepAndClosesTheDecoding() {
        for (steps in 0..3) {
            val inner = ModelEngine.fixed(0f, 0f, -9f, 5f)
            val error = assertThrows(LiteNlpException::class.java) {
                search(BeamDouble(inner), listOf(intArrayOf(3, 3, 3)), SearchOptions(), Watcher(steps))
            }
            assertEquals(Problem.CANCELLED, error.problem)
            assertEquals(listOf(steps, 0), listOf(inner.steps, inner.open))
        }
    }

    @Test
    fun aCallTakesAsManySteps() {
        val engine = BeamDouble(random())
        val options = SearchOptions(beamSize = 2)
        search(engine, sources, options)
        // Two of nine sentences end a call; those that go on are as many fewer, and begin where it ended.
        assertTrue(engine.calls.size in 2..5) { "${engine.calls.size} calls" }
        assertEquals(listOf(9, 2, 0), engine.calls[0].run { listOf(sentences, leave, step) })
        assertEquals(options.steps(6, 512), engine.calls[0].steps)
        for ((before, after) in engine.calls.zipWithNext()) {
            assertTrue(after.sentences <= before.sentences - before.leave)
            assertTrue(after.step in before.step + 1..before.step + before.steps)
        }
        engine.calls.clear()
        search(engine, sources, options.copy(noRepeatNgram = 2))
        assertTrue(engine.calls.all { it.steps == 1 })
        engine.calls.clear()
        search(engine, sources, options, Watcher())
        assertTrue(engine.calls.all { it.steps == 1 })
        assertEquals(engine.calls.indices.toList(), engine.calls.map { it.step })
    }

    @Test
    fun asManyTokensAreRankedAsMayBeBlockedBesides() {
        val engine = BeamDouble(random(vocabSize = 7))
        search(engine, listOf(IntArray(6) { 3 }), SearchOptions(beamSize = 2, noRepeatNgram = 1, minLength = 3))
        // One more at each step, but no more than the four ordinary tokens.
        assertEquals(listOf(2, 3, 4, 4), engine.calls.take(4).map { it.count })
        assertArrayEquals(intArrayOf(-1, -1), engine.calls[0].blocked)
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 3])
    fun damagedWeightsAreAnErrorNotATranslation(beamSize: Int) {
        val inner = ModelEngine(6) { _, produced -> FloatArray(6) { if (produced.size == 2) Float.NaN else it.toFloat() } }
        val error = assertThrows(LiteNlpException::class.java) {
            search(BeamDouble(inner), listOf(intArrayOf(3)), SearchOptions(beamSize, minLength = 5))
        }
        assertEquals(Problem.RUNTIME_FAILED, error.problem)
        assertTrue("expected finite logits at every step, found NaN or infinity" in error.message)
        assertEquals(0, inner.open)
    }
}
