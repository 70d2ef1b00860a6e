package dev.litenlp.nativetests

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
}
