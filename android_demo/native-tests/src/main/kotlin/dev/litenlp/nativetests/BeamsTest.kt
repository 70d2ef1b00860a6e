package dev.litenlp.nativetests

import dev.litenlp.core.engine.BeamDecoding
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.Translator
import dev.litenlp.core.search.search
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue

/** Several hypotheses, several sentences at a time, and texts: what moves and splits the rows of a batch. */
class BeamsTest {
    @OnBothRuntimes
    fun `tokens of a beam of four are Python's`(factory: EngineFactory) {
        // The longest lines take ExecuTorch minutes, and have been run greedily.
        assertGolden(factory, beam = 4, Golden.lines.filter { line -> line.pieces.sumOf { it.size } <= 60 })
    }

    @OnBothRuntimes
    fun `texts of the app's own translator are Python's`(factory: EngineFactory) {
        openEngine(factory).use { engine ->
            val translator = Translator.of(TestBundle.installed, engine)
            // Every third: their tokens have been compared, and here it is about what lies around the engine.
            val lines = Golden.lines.filterIndexed { index, line ->
                index % 3 == 0 && line.results.getValue(1).stable && line.pieces.sumOf { it.size } <= 60
            }
            for (line in lines) {
                assertEquals(line.results.getValue(1).text, translator.translate(line.text).text, line.text)
            }
        }
    }

    @OnBothRuntimes
    fun `a batch larger than the program takes at once is split`(factory: EngineFactory) {
        val lines = Golden.all.filter { it.pieces.size == 1 && it.pieces[0].size in 4..12 && it.results.getValue(4).stable }.take(11)
        assertTrue(lines.size * 4 > 2 * TestBundle.installed.manifest.bounds.executorchBatch)
        openEngine(factory, threads = 2).use { engine ->
            val found = search(engine, lines.map { it.pieces[0] }, SearchOptions(beamSize = 4)).map { it.tokens.asList() }
            assertEquals(lines.map { it.results.getValue(4).tokens[0] }, found)
        }
    }

    @OnBothRuntimes
    fun `no n-gram occurs twice, and the tokens are those of the search on logits`(factory: EngineFactory) {
        val sources = Golden.all.filter { it.pieces.size == 1 && it.pieces[0].size in 3..15 }.take(8).map { it.pieces[0] }
        openEngine(factory).use { engine ->
            val stepwise = object : Engine by engine {
                override fun startBeams(sources: List<IntArray>, capacity: Int): BeamDecoding? = null
            }
            for (beamSize in listOf(1, 3)) {
                val options = SearchOptions(beamSize, noRepeatNgram = 2, minLength = 16)
                val (found, expected) = listOf(engine, stepwise).map { own ->
                    search(own, sources, options).map { it.tokens.asList() }
                }
                assertEquals(expected, found)
                for (tokens in found) assertEquals(tokens.size - 1, tokens.windowed(2).distinct().size, "$tokens")
            }
        }
    }
}
