package dev.litenlp.nativetests

import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The app's libraries, engines, search and tokenizer give the tokens that Python gives. */
class TranslationsTest {
    @Test
    fun `there are a few hundred lines, and nearly all of them have one right answer`() {
        assertTrue(Golden.all.size >= 250, "${Golden.all.size} lines")
        for (beam in listOf(1, 4)) {
            val stable = Golden.all.count { it.results.getValue(beam).stable }
            assertTrue(stable > 0.9 * Golden.all.size, "beam $beam: $stable of ${Golden.all.size} are stable")
        }
    }

    @OnBothRuntimes
    fun `greedy tokens are Python's`(factory: EngineFactory) = assertGolden(factory, beam = 1, Golden.lines)
}

/** Asserts that each piece of each line becomes the golden tokens where these are the only right ones. */
fun assertGolden(factory: EngineFactory, beam: Int, lines: List<GoldenLine>) {
    val wrong = mutableListOf<String>()
    openEngine(factory).use { engine ->
        for (line in lines) {
            val golden = line.results.getValue(beam)
            val tokens = line.pieces.map { search(engine, listOf(it), SearchOptions(beamSize = beam))[0].tokens.asList() }
            if (golden.stable && tokens != golden.tokens) {
                wrong += "'${line.text}': expected ${golden.tokens}, found $tokens"
            }
        }
    }
    assertTrue(wrong.isEmpty(), "${wrong.size} of ${lines.size} lines differ:\n${wrong.joinToString("\n")}")
}
