package dev.litenlp.desktop

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.metrics.Benchmark
import dev.litenlp.core.metrics.BenchmarkPlan
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.search.Hypothesis
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.SpecialTokens
import dev.litenlp.core.search.Translator
import dev.litenlp.core.search.search
import java.io.File
import java.util.zip.GZIPInputStream
import kotlin.math.abs
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.BeforeAll
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestInstance
import org.junit.jupiter.api.io.TempDir
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

/**
 * The whole chain on a real bundle: installed, translated with, and held against Python's tokens.
 *
 * The system property `litenlp.bundle` names a bundle of the shipped model (`lite-nlp export --out shipped.zip`); without it
 * these tests are skipped. `litenlp.golden` is the folder of `translations.json.gz`, `native-tests/golden` if unsaid.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
class DesktopEngineTest {
    private lateinit var bundle: InstalledBundle
    private lateinit var engine: Engine
    private lateinit var lines: List<JSONObject>
    private var maxSourceTokens = 0

    @BeforeAll
    fun install(@TempDir models: File) {
        val archive = System.getProperty("litenlp.bundle")
        assumeTrue(archive != null, "the system property litenlp.bundle names no bundle of the shipped model")
        bundle = File(archive).inputStream().use { source ->
            BundleInstaller.install(source, models, 1L shl 30, { models.usableSpace }, { _, _ -> }, { false })
        }
        engine = DesktopEngineFactory.open(bundle, threads = 1)
        val golden = File(System.getProperty("litenlp.golden") ?: "native-tests/golden", "translations.json.gz")
        val vectors = GZIPInputStream(golden.inputStream()).use { JSONObject(it.reader(Charsets.UTF_8).readText()) }
        assertEquals(vectors.getString("model"), bundle.manifest.name, "litenlp.bundle: expected the shipped model")
        maxSourceTokens = vectors.getInt("max_source_tokens")
        lines = vectors.getJSONArray("lines").objects()
    }

    @AfterAll
    fun close() {
        if (::engine.isInitialized) engine.close()
    }

    @ParameterizedTest
    @ValueSource(ints = [1, 4])
    fun tokensAreThoseOfPython(beamSize: Int) {
        val options = SearchOptions(beamSize, maxSteps = engine.maxSteps)
        // With four hypotheses the long lines take minutes; greedily all of them are held against Python's.
        val chosen = stableLines(beamSize).filter { beamSize == 1 || it.sources().all { source -> source.size <= 60 } }
        assertTrue(chosen.size > 200) { "expected hundreds of lines to compare, found ${chosen.size}" }
        for (line in chosen) {
            val found = line.sources().map { search(engine, listOf(it), options)[0].tokens.toList() }
            val expected = line.getJSONObject("beam$beamSize").getJSONArray("tokens").rows().map { it.toList() }
            assertEquals(expected, found) { "beam $beamSize: ${line.getString("text")}" }
        }
    }

    @Test
    fun linesBecomeTheLinesOfPython() {
        val translator = Translator(bundle.tokenizer(), engine, maxSourceTokens = maxSourceTokens)
        // Every line that is not one piece, and some of the others.
        val chosen = stableLines(1).filterIndexed { index, line -> index % 8 == 0 || line.sources().size != 1 }
        for (line in chosen) {
            val found = translator.translate(line.getString("text"))
            assertEquals(line.getJSONObject("beam1").getString("text"), found.text) { line.getString("text") }
            assertEquals(line.sources().size, found.pieces)
        }
        assertTrue(chosen.any { it.sources().size > 1 } && chosen.any { it.sources().isEmpty() })
    }

    @Test
    fun aBatchGivesTheTokensOfItsSentences() {
        val options = SearchOptions(beamSize = 3)
        val chosen = stableLines(1).flatMap { it.sources() }.filter { it.size < 40 }.take(24)
        val together = search(engine, chosen, options)
        val alone = chosen.map { search(engine, listOf(it), options)[0] }
        // Padding moves the last bits of the logits: of 24 sentences all but one must agree in their tokens.
        assertTrue(agreeing(together, alone) >= 23) { "expected 23 of 24 sentences to agree, found ${agreeing(together, alone)}" }
        for ((first, second) in together.zip(alone)) assertEquals(first.score, second.score, 1e-3)
    }

    private fun agreeing(first: List<Hypothesis>, second: List<Hypothesis>): Int =
        first.zip(second).count { (one, other) -> one.tokens.contentEquals(other.tokens) }

    @Test
    fun reorderedRowsGoOnAsThoseTheyWere() {
        val sources = stableLines(1).flatMap { it.sources() }.take(3).map { it + SpecialTokens.EOS }
        val fed = listOf(intArrayOf(5, 6, 7), intArrayOf(8, 9, 10))
        val size = engine.vocabSize
        engine.start(sources, 8).use { reordered ->
            engine.start(sources, 8).use { plain ->
                for (tokens in fed) {
                    reordered.step(tokens)
                    plain.step(tokens)
                }
                reordered.reorder(intArrayOf(2, 0, 0, 1))
                assertEquals(4, reordered.rows)
                val found = reordered.step(intArrayOf(13, 11, 11, 12)).copyOf(4 * size)
                val expected = plain.step(intArrayOf(11, 12, 13))
                for ((row, origin) in listOf(2, 0, 0, 1).withIndex()) {
                    val difference = (0 until size).maxOf { abs(found[row * size + it] - expected[origin * size + it]) }
                    assertTrue(difference < 1e-3) { "row $row: logits differ by $difference" }
                }
                assertTrue((0 until size).any { abs(expected[it] - expected[size + it]) > 0.1 }) { "rows are all alike" }
            }
        }
    }

    @Test
    fun boundsAndCapacityAreHeld() {
        val long = assertThrows(LiteNlpException::class.java) {
            engine.start(listOf(IntArray(engine.maxSourceTokens + 1) { 5 }), 4)
        }
        assertEquals(Problem.TOO_LARGE, long.problem)
        engine.start(listOf(IntArray(engine.maxSourceTokens) { 5 }), engine.maxSteps).use { it.step(intArrayOf(1)) }
        engine.start(listOf(intArrayOf(2)), 2).use { decoding ->
            repeat(2) { decoding.step(intArrayOf(1)) }
            assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(1)) }
            assertThrows(IllegalArgumentException::class.java) { decoding.reorder(intArrayOf(1)) }
        }
    }

    @Test
    fun whatIsClosedThrows() {
        val own = DesktopEngineFactory.open(bundle, threads = 1)
        val decoding = own.start(listOf(intArrayOf(5, 2)), 4)
        val other = own.start(listOf(intArrayOf(6, 2)), 4)
        decoding.close()
        decoding.close()
        assertThrows(IllegalStateException::class.java) { decoding.step(intArrayOf(1)) }
        assertThrows(IllegalStateException::class.java) { decoding.reorder(intArrayOf(0)) }
        own.close()
        own.close()
        assertThrows(IllegalStateException::class.java) { other.step(intArrayOf(1)) }
        assertThrows(IllegalStateException::class.java) { own.start(listOf(intArrayOf(5, 2)), 4) }
    }

    @Test
    fun graphsThatAreNoneAreRefused(@TempDir copy: File) {
        bundle.directory.listFiles()!!.forEach { it.copyTo(File(copy, it.name)) }
        val names = bundle.manifest.onnx!!
        for (graph in listOf(names.decodeStep, names.beam).map { File(copy, it) }) {
            graph.writeBytes(ByteArray(graph.length().toInt()) { 7 })
            val error = assertThrows(LiteNlpException::class.java) {
                // The first is needed by nothing but this.
                DesktopEngineFactory.open(InstalledBundle.open(copy, verify = false), 1).use { it.start(listOf(intArrayOf(5, 2)), 4) }
            }
            assertEquals(Problem.RUNTIME_REFUSED, error.problem)
            assertTrue(graph.name in error.message) { error.message }
        }
    }

    @Test
    fun aBundleWithoutOnnxHasNoGraphsForThis(@TempDir copy: File) {
        bundle.directory.listFiles()!!.forEach { it.copyTo(File(copy, it.name)) }
        val manifest = File(copy, Manifest.FILE)
        manifest.writeText(JSONObject(manifest.readText()).put("onnx", JSONObject.NULL).toString())
        val error = assertThrows(LiteNlpException::class.java) {
            DesktopEngineFactory.open(InstalledBundle.open(copy, verify = false), 1)
        }
        assertEquals(Problem.RUNTIME_MISSING, error.problem)
    }

    @Test
    fun theBenchmarkRunsOnARealEngine() {
        val sources = stableLines(1).flatMap { it.sources() }.take(4)
        val plan = BenchmarkPlan(sources, threads = listOf(1, 2), warmup = 1, repeats = 2)
        val runtime = Runtime.getRuntime()
        val outcome = Benchmark(bundle, plan, { runtime.totalMemory() - runtime.freeMemory() }).run(listOf(DesktopEngineFactory))
        assertEquals(emptyList<String>(), outcome.failures.map { it.error.message })
        assertEquals(listOf(1, 2), outcome.rows.map { it.threads })
        val tokens = sources.map { search(engine, listOf(it), SearchOptions())[0].tokens.size }
        val work = GraphWork.of(bundle.manifest, "onnx")!!
        val macs = sources.indices.sumOf { index ->
            val length = sources[index].size + 1
            val capacity = SearchOptions().steps(sources[index].size, engine.maxSteps)
            work.encodeMacs(length, capacity) + (1..tokens[index] + 1).sumOf { slots -> work.stepMacs(length, slots) }
        }
        assertArrayEquals(longArrayOf(macs, macs), outcome.rows.map { it.macs }.toLongArray())
        assertEquals(1, outcome.rows.map { it.tokensSha256 }.distinct().size)
        assertTrue(outcome.rows.all { it.firstTokenMs.max <= it.sentenceMs.max && it.gmacsPerSecond > 0 })
    }

    /** Lines whose tokens another processor must give too. */
    private fun stableLines(beamSize: Int): List<JSONObject> = lines.filter { it.getJSONObject("beam$beamSize").getBoolean("stable") }

    private fun JSONObject.sources(): List<IntArray> = getJSONArray("pieces").rows()

    private fun JSONArray.objects(): List<JSONObject> = List(length()) { getJSONObject(it) }

    private fun JSONArray.integers(): IntArray = IntArray(length()) { getInt(it) }

    private fun JSONArray.rows(): List<IntArray> = List(length()) { getJSONArray(it).integers() }
}
