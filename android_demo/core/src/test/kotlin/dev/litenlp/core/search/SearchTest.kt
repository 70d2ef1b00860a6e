package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import kotlin.math.E
import kotlin.math.ln
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

/** Search on models with results known by hand, and properties that hold for any model. */
class SearchTest {
    private fun source(vararg tokens: Int) = listOf(tokens)

    private fun repeated(count: Int) = IntArray(count) { 3 }

    @Test
    fun noSourcesNeedNoModel() {
        val engine = ModelEngine(4) { _, _ -> error("must not be called") }
        assertEquals(0, search(engine, emptyList(), SearchOptions()).size)
    }

    @Test
    fun sourcesAreEndedAndDecodingStartsWithTheBeginMark() {
        val engine = ModelEngine.fixed(0f, 0f, 9f, 0f)
        search(engine, listOf(intArrayOf(3, 3, 3), intArrayOf(), intArrayOf(3)), SearchOptions())
        assertEquals(listOf(listOf(3, 3, 3, 2), listOf(2), listOf(3, 2)), engine.sources.map { it.toList() })
        assertArrayEquals(intArrayOf(1, 1, 1), engine.firstTokens)
        assertEquals(16, engine.capacity)
    }

    @Test
    fun anImmediateEndIsAnEmptyTranslationWithItsProbability() {
        val found = search(ModelEngine.fixed(0f, 0f, 2f, 0f), source(3), SearchOptions(lengthPenalty = 0.0))[0]
        assertEquals(0, found.tokens.size)
        assertEquals(2 - ln(3 + E * E), found.score, 1e-7)
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 2, 7])
    fun padAndBeginAreNeverProduced(beamSize: Int) {
        val found = search(ModelEngine.fixed(50f, 40f, 0f, 1f, 2f), source(3, 4), SearchOptions(beamSize))[0]
        assertTrue(found.tokens.all { it >= 3 }) { found.tokens.toList().toString() }
        if (beamSize == 1) assertEquals(13, found.tokens.size)
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 4])
    fun theStepBoundFollowsTheSourceLengthAndForcesTheEnd(beamSize: Int) {
        val options = SearchOptions(beamSize, maxLengthRatio = 1.5, maxLengthExtra = 2, lengthPenalty = 0.0)
        val engine = ModelEngine.fixed(0f, 0f, -90f, 5f, 4f, 4f, 4f, 4f)
        val found = search(engine, listOf(repeated(2), repeated(5)), options)
        assertEquals(listOf(4, 8), found.map { it.tokens.size })
        assertEquals(9, engine.steps)
        assertEquals(9, engine.capacity)
    }

    @Test
    fun theSmallestOfAllBoundsCounts() {
        val endless = ModelEngine.fixed(0f, 0f, -90f, 5f)
        assertEquals(6, search(endless, listOf(repeated(50)), SearchOptions(maxSteps = 7))[0].tokens.size)
        val short = ModelEngine(4, maxSteps = 5) { _, _ -> floatArrayOf(0f, 0f, -90f, 5f) }
        assertEquals(4, search(short, listOf(repeated(50)), SearchOptions(maxSteps = 7))[0].tokens.size)
        assertEquals(4, search(short, listOf(repeated(50)), SearchOptions(maxLengthRatio = 1e300))[0].tokens.size)
    }

    @Test
    fun blockingEveryWordEndsTheSentence() {
        val found = search(ModelEngine.fixed(0f, 0f, -9f, 5f, 4f), listOf(repeated(5)), SearchOptions(noRepeatNgram = 1))[0]
        assertArrayEquals(intArrayOf(3, 4), found.tokens)
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 3])
    fun anOutputHasTheLeastLengthWhereItsStepsAllow(beamSize: Int) {
        val options = SearchOptions(beamSize, minLength = 4, maxLengthRatio = 1.0, maxLengthExtra = 1)
        val sources = listOf(repeated(9), repeated(4), repeated(1))
        val found = search(ModelEngine.fixed(0f, 0f, 9f, 2f, 1f), sources, options)
        assertEquals(listOf(4, 4, 1), found.map { it.tokens.size })
    }

    @Test
    fun anOutputThatNothingMayFollowEndsBeforeTheLeastLength() {
        val options = SearchOptions(minLength = 4, noRepeatNgram = 1)
        assertArrayEquals(
            intArrayOf(3, 4),
            search(ModelEngine.fixed(0f, 0f, 1f, 5f, 4f), listOf(repeated(5)), options)[0].tokens,
        )
    }

    @Test
    fun fewerWordsThanPlaces() {
        val options = SearchOptions(beamSize = 5, lengthPenalty = 0.0)
        assertEquals(0, search(ModelEngine.fixed(0f, 0f, 1f, 2f), source(3), options)[0].tokens.size)
    }

    @Test
    fun ofEqualCandidatesAnEndIsFirstAndThenTheSmallestId() {
        assertEquals(0, search(ModelEngine.fixed(0f, 0f, 1f, 1f, 1f), source(3), SearchOptions())[0].tokens.size)
        for (beamSize in 1..3) {
            val options = SearchOptions(beamSize, maxSteps = 3)
            val found = search(ModelEngine.fixed(0f, 0f, -30f, 1f, 2f, 2f, 2f), source(3), options)[0]
            assertArrayEquals(intArrayOf(4, 4), found.tokens)
        }
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 2, 4])
    fun damagedWeightsAreAnErrorNotATranslation(beamSize: Int) {
        for (bad in listOf(Float.NaN, Float.POSITIVE_INFINITY)) {
            for (place in 0 until 6) {
                val logits = floatArrayOf(0f, 0f, 1f, 2f, 3f, 4f).also { it[place] = bad }
                val engine = ModelEngine.fixed(*logits)
                val error = assertThrows(LiteNlpException::class.java) { search(engine, source(3), SearchOptions(beamSize)) }
                assertEquals(Problem.RUNTIME_FAILED, error.problem)
                assertTrue("expected finite logits at every step, found NaN or infinity" in error.message)
                assertEquals(0, engine.open)
            }
        }
    }

    @Test
    fun impossibleTokensAreNoError() {
        val never = Float.NEGATIVE_INFINITY
        val found = search(ModelEngine.fixed(never, never, 0f, never, 1f), source(3), SearchOptions(beamSize = 3))[0]
        assertTrue(found.tokens.all { it == 4 } && found.score.isFinite())
    }

    @Test
    fun cancellingStopsBeforeTheNextStepAndClosesTheDecoding() {
        for (steps in 0..3) {
            val engine = ModelEngine.fixed(0f, 0f, -9f, 5f)
            var seen = 0
            val listener = object : SearchListener {
                override fun onStep(best: IntArray) {
                    seen++
                }

                override fun isCancelled() = seen >= steps
            }
            val error = assertThrows(LiteNlpException::class.java) {
                search(engine, source(3, 3, 3), SearchOptions(), listener)
            }
            assertEquals(Problem.CANCELLED, error.problem)
            assertEquals(steps, engine.steps)
            assertEquals(0, engine.open)
        }
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 4])
    fun theListenerSeesTheTranslationGrow(beamSize: Int) {
        val engine = ModelEngine.random(12, seed = 5)
        val seen = mutableListOf<List<Int>>()
        val listener = object : SearchListener {
            override fun onStep(best: IntArray) {
                seen += best.toList()
                best.fill(-1)
            }

            override fun isCancelled() = false
        }
        val found = search(engine, listOf(intArrayOf(4, 5), repeated(9)), SearchOptions(beamSize), listener)
        assertEquals(engine.steps, seen.size)
        assertEquals(found[0].tokens.toList(), seen.last())
        if (beamSize == 1) {
            val tokens = found[0].tokens.toList()
            seen.forEachIndexed { step, best -> assertEquals(tokens.take(step + 1), best) }
        }
    }

    @Test
    fun beamOneIsGreedy() {
        repeat(60) { seed ->
            val engine = ModelEngine.random(5 + seed, seed)
            val source = IntArray(1 + seed % 7) { 3 + it }
            val found = search(engine, listOf(source), SearchOptions())[0]
            val other = ModelEngine.random(5 + seed, seed)
            assertEquals(greedy(other, source, SearchOptions()), found.tokens.toList())
        }
    }

    /** Greedy search written down as plainly as it can be. */
    private fun greedy(engine: ModelEngine, source: IntArray, options: SearchOptions): List<Int> {
        val produced = mutableListOf<Int>()
        val steps = options.steps(source.size, engine.maxSteps)
        engine.start(listOf(source + 2), steps).use { decoding ->
            var token = 1
            while (produced.size < steps - 1) {
                val logits = decoding.step(intArrayOf(token))
                token = (2 until engine.vocabSize).maxByOrNull { logits[it] }!!
                if (token == 2) return produced
                produced += token
            }
        }
        return produced
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 2, 5])
    fun aSentenceDoesNotDependOnTheOthersOfItsBatch(beamSize: Int) {
        val options = SearchOptions(beamSize, noRepeatNgram = 2)
        val sources = List(9) { index -> IntArray(index * 2 % 7) { 3 + (it + index) % 6 } }
        val together = search(ModelEngine.random(9, seed = 3), sources, options)
        for ((source, hypothesis) in sources.zip(together)) {
            val alone = search(ModelEngine.random(9, seed = 3), listOf(source), options)[0]
            assertArrayEquals(alone.tokens, hypothesis.tokens)
            assertEquals(alone.score, hypothesis.score)
        }
    }

    @Test
    fun sentencesLeaveTheBatchWhenTheyAreDone() {
        val engine = ModelEngine.random(9, seed = 3)
        val found = search(engine, List(6) { IntArray(it) { 3 } }, SearchOptions())
        assertEquals(found.sumOf { it.tokens.size + 1 }, engine.fedRows)
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 2, 3])
    fun noNgramOccursTwice(size: Int) {
        for (beamSize in listOf(1, 3)) {
            var repeating = 0
            for (seed in 0 until 40) {
                val ngrams = listOf(0, size).map { blocked ->
                    val options = SearchOptions(beamSize, noRepeatNgram = blocked, minLength = 12)
                    search(ModelEngine.random(5, seed), listOf(repeated(6)), options)[0].tokens.toList().windowed(size)
                }
                assertEquals(ngrams[1].size, ngrams[1].toSet().size) { "${ngrams[1]}" }
                if (ngrams[0].size != ngrams[0].toSet().size) repeating++
            }
            // Two words cannot make twelve tokens without repeating a trigram.
            assertEquals(40, repeating)
        }
    }

    @Test
    fun aBeamFindsWhatGreedyMisses() {
        // The likelier first token (3) leads nowhere; after the other one (4) the end is certain.
        val engine = ModelEngine(6) { _, produced ->
            when {
                produced.isEmpty() -> floatArrayOf(-50f, -50f, -50f, 1f, 0.9f, -50f)
                produced[0] == 4 -> floatArrayOf(-50f, -50f, 9f, -50f, -50f, -50f)
                else -> floatArrayOf(-50f, -50f, 0f, 0f, 0f, 0f)
            }
        }
        val options = SearchOptions(beamSize = 2, lengthPenalty = 0.0)
        assertArrayEquals(intArrayOf(4), search(engine, source(3), options)[0].tokens)
        assertNotEquals(4, search(engine, source(3), options.copy(beamSize = 1))[0].tokens.firstOrNull())
    }

    @Test
    fun aBeamEndsWhenNothingCanOvertakeTheBest() {
        val certain = ModelEngine.fixed(-50f, -50f, 9f, 0f, 0f, 0f)
        search(certain, source(3), SearchOptions(beamSize = 3))
        assertEquals(1, certain.steps)
        // The end is the least likely of four, so that longer hypotheses may still be better once they are divided.
        val open = ModelEngine.fixed(-50f, -50f, 0f, 1f, 1f, 1f)
        search(open, source(3), SearchOptions(beamSize = 4, lengthPenalty = 1.0))
        assertTrue(open.steps > 1)
    }

    @Test
    fun optionsOutOfRange() {
        val wrong = mapOf<String, () -> SearchOptions>(
            "beamSize: expected at least 1, found 0" to { SearchOptions(beamSize = 0) },
            "beamSize: expected at most 256, found 257" to { SearchOptions(beamSize = 257) },
            "lengthPenalty: expected at least 0, found -0.5" to { SearchOptions(lengthPenalty = -0.5) },
            "lengthPenalty: expected at least 0, found NaN" to { SearchOptions(lengthPenalty = Double.NaN) },
            "maxLengthRatio: expected at least 0, found -1.0" to { SearchOptions(maxLengthRatio = -1.0) },
            "noRepeatNgram: expected at least 0, found -1" to { SearchOptions(noRepeatNgram = -1) },
            "maxLengthExtra: expected at least 1, found 0" to { SearchOptions(maxLengthExtra = 0) },
            "minLength: expected at least 0, found -1" to { SearchOptions(minLength = -1) },
            "maxSteps: expected at least 1, found 0" to { SearchOptions(maxSteps = 0) },
        )
        for ((message, make) in wrong) {
            assertEquals(message, assertThrows(IllegalArgumentException::class.java) { make() }.message)
        }
    }
}
