package dev.litenlp.nativetests

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchListener
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.SpecialTokens
import dev.litenlp.core.search.search
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.MethodSource

/** A test that gets each of [factories]. */
@ParameterizedTest
@MethodSource("dev.litenlp.nativetests.TestBundleKt#getRuntimes")
annotation class OnBothRuntimes

/** Contract of engines besides the right logits: closing, cancelling, and errors for wrong use. */
class EnginesTest {
    private val sentence = Golden.all.first { it.pieces.size == 1 && it.pieces[0].size in 8..15 }.pieces[0]
    private val source = sentence + SpecialTokens.EOS

    @OnBothRuntimes
    fun `an engine tells what it is`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val manifest = TestBundle.installed.manifest
            assertEquals(factory.runtime, engine.runtime)
            assertTrue(Regex("""\d+\.\d+\.\d+""").matches(engine.version), engine.version)
            assertEquals(manifest.bounds.source, engine.maxSourceTokens)
            assertEquals(manifest.bounds.capacity, engine.maxSteps)
            assertEquals(manifest.vocabulary.tgtSize, engine.vocabSize)
        }
    }

    @OnBothRuntimes
    fun `rows that are moved go on as they were`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val other = Golden.all.first { it.pieces.size == 1 && it.pieces[0].size == sentence.size && it.pieces[0][0] != sentence[0] }
            val sources = listOf(source, other.pieces[0] + SpecialTokens.EOS)
            val size = engine.vocabSize
            val straight = engine.start(sources, 4)
            val moved = engine.start(sources, 4)
            straight.step(intArrayOf(1, 1))
            moved.step(intArrayOf(1, 1))
            // Swapped, repeated, and then the second alone.
            moved.reorder(intArrayOf(1, 0, 1))
            assertEquals(3, moved.rows)
            val expected = straight.step(intArrayOf(40, 50)).copyOf()
            val found = moved.step(intArrayOf(50, 40, 60))
            assertClose(expected.copyOfRange(size, 2 * size), found.copyOfRange(0, size))
            assertClose(expected.copyOfRange(0, size), found.copyOfRange(size, 2 * size))
            moved.reorder(intArrayOf(1))
            assertClose(straight.step(intArrayOf(70, 70)).copyOfRange(0, size), moved.step(intArrayOf(70)).copyOfRange(0, size))
        }
    }

    private fun assertClose(expected: FloatArray, found: FloatArray) = assertArrayEquals(expected, found, 2e-4f)

    @OnBothRuntimes
    fun `two decodings of one engine do not disturb each other`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val alone = engine.start(listOf(source), 3).use { it.step(intArrayOf(1)); it.step(intArrayOf(33)).copyOf() }
            engine.start(listOf(source), 3).use { first ->
                engine.start(listOf(source.copyOfRange(2, source.size)), 9).use { second ->
                    first.step(intArrayOf(1))
                    second.step(intArrayOf(1))
                    assertArrayEquals(alone, first.step(intArrayOf(33)))
                }
            }
        }
    }

    @OnBothRuntimes
    fun `a search can be cancelled`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            var steps = 0
            val listener = object : SearchListener {
                override fun onStep(best: IntArray) {
                    steps++
                }

                override fun isCancelled() = steps == 3
            }
            val error = assertThrows(LiteNlpException::class.java) {
                search(engine, listOf(sentence), SearchOptions(minLength = 20), listener)
            }
            assertEquals(Problem.CANCELLED, error.problem)
            assertEquals(3, steps)
            // The engine is as good as before.
            assertTrue(search(engine, listOf(sentence), SearchOptions())[0].tokens.isNotEmpty())
        }
    }

    @OnBothRuntimes
    fun `what is closed stays closed`(factory: EngineFactory) {
        val engine = openEngine(factory)
        val decoding = engine.start(listOf(source), 5)
        val closedFirst = engine.start(listOf(source), 5)
        closedFirst.close()
        closedFirst.close()
        assertThrows(IllegalStateException::class.java) { closedFirst.step(intArrayOf(1)) }
        decoding.step(intArrayOf(1))
        engine.close()
        engine.close()
        assertThrows(IllegalStateException::class.java) { engine.start(listOf(source), 5) }
        assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(1)) }
        assertThrows(IllegalStateException::class.java) { decoding.reorder(intArrayOf(0)) }
        assertThrows(IllegalStateException::class.java) { decoding.rows }
        decoding.close()
    }

    @OnBothRuntimes
    fun `wrong use has an answer`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            assertProblem(Problem.TOO_LARGE) { engine.start(listOf(IntArray(engine.maxSourceTokens + 1) { 5 }), 5) }
            assertProblem(Problem.TOO_LARGE) { engine.start(listOf(source), engine.maxSteps + 1) }
            assertProblem(Problem.OTHER_TOKENIZER) { engine.start(listOf(intArrayOf(1_000_000)), 5) }
            engine.start(listOf(source), 1).use { decoding ->
                assertThrows(IllegalArgumentException::class.java) { decoding.step(intArrayOf(1, 1)) }
                assertThrows(IllegalArgumentException::class.java) { decoding.step(intArrayOf(engine.vocabSize)) }
                assertThrows(IllegalArgumentException::class.java) { decoding.reorder(intArrayOf(1)) }
                assertThrows(IllegalArgumentException::class.java) { decoding.reorder(intArrayOf()) }
                decoding.step(intArrayOf(1))
                assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(1)) }
            }
        }
    }

    @OnBothRuntimes
    fun `the longest source and the most steps fit`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val longest = IntArray(engine.maxSourceTokens) { 5 + it % 100 }.also { it[it.size - 1] = SpecialTokens.EOS }
            engine.start(listOf(longest), engine.maxSteps).use { decoding ->
                repeat(engine.maxSteps) { decoding.step(intArrayOf(if (it == 0) 1 else 5 + it % 100)) }
                assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(5)) }
            }
        }
    }
}

/** Runs [action], which must fail with a [LiteNlpException] of this kind; returns it. */
fun assertProblem(problem: Problem, action: () -> Unit): LiteNlpException {
    val error = assertThrows(LiteNlpException::class.java, action)
    assertEquals(problem, error.problem, error.message)
    return error
}
