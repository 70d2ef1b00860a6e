package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.TestBundle
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.tokenizer.GoldenVectors
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir
import java.io.File

/** The translator on an engine that repeats its source: what goes in, piece by piece, comes out. */
class TranslatorTest {
    private val sources = ArrayList<List<Int>>()

    /** Produces the tokens of the source, then the end mark. */
    private val echo = ModelEngine(tokenizer.vocabSize) { source, produced ->
        if (produced.isEmpty()) sources.add(source.toList())
        val logits = FloatArray(tokenizer.vocabSize)
        logits[if (produced.size < source.size) source[produced.size] else SpecialTokens.EOS] = 20f
        logits
    }

    private class Recorder(private val cancelAfter: Int = Int.MAX_VALUE) : TranslationListener {
        val texts = ArrayList<String>()

        override fun onText(text: String) {
            texts.add(text)
        }

        override fun isCancelled(): Boolean = texts.size >= cancelAfter
    }

    private fun translator(
        maxSourceTokens: Int = 200,
        longInput: LongInput = LongInput.SPLIT,
        beamSize: Int = 1,
        engine: ModelEngine = echo,
    ) = Translator(tokenizer, engine, SearchOptions(beamSize), longInput, maxSourceTokens, work)

    @Test
    fun everyLineHasATranslation() {
        val text = "\uFEFFOne dog.\r\n\n \u0085\u3000\n\uFEFFTwo\rdogs. \uFEFF\u2028\n"
        val found = translator().translate(text)
        // Byte order marks, ends of lines and blank lines are gone; another line break is a space, for the model too.
        assertEquals("One dog.\n\n\nTwo dogs.\n", found.text)
        assertEquals(2, found.pieces)
        assertEquals(sources, found.tokens.map { it.toList() })
        assertEquals(listOf("One dog.", "Two dogs.").map { tokenizer.encode(it).toList() }, sources)
    }

    @Test
    fun aLineIsSpelledAsTheModelLearned() {
        val plain = listOf("He isn't here.", "Two dogs run.", "Die M\u00E4nner", "The dogs", "q\u0308 \u200D")
        val typed = "\t He isn\u2019t\u00A0 here.\u3000\nTwo   dogs run. \nDie Ma\u0308nner\n\u200EThe\u200B do\u00ADgs \u2060\nq\u0308 \u200D"
        assertEquals(plain.joinToString("\n"), translator().translate(typed).text)
        assertEquals(plain.map { tokenizer.encode(it).toList() }, sources)
    }

    @Test
    fun theTokensOfALineAreThoseThatAreTranslated() {
        val text = "I don\u2019t think it\u2019s fine.\n \t\nHello   world \t \n"
        val lines = Translator.sourceLines(text, tokenizer)
        assertEquals(listOf("I don't think it's fine.", "", "Hello world", ""), lines.map { it.text })
        assertEquals(lines.map { tokenizer.encode(it.text).toList() }, lines.map { it.tokens.toList() })
        assertEquals(translator().translate(text).sourceTokens, lines.sumOf { it.tokens.size })
    }

    @Test
    fun nothingToTranslateTakesNoStep() {
        for (text in listOf("", " ", "\n", "\t \u2003")) {
            val found = translator().translate(text)
            assertEquals("\n".repeat(text.count { it == '\n' }), found.text)
            assertEquals(listOf(0, 0, 0, 0), listOf(found.pieces, found.steps, found.sourceTokens, found.targetTokens))
            assertEquals(0L, found.executedMacs)
            assertEquals(0.0, found.firstTokenMs)
        }
        assertEquals(emptyList<List<Int>>(), sources)
    }

    @Test
    fun figuresCountTokensStepsAndWork() {
        val tokens = tokenizer.encode("A man in blue.").size
        val found = translator().translate("A man in blue.\nA man in blue.")
        assertEquals(2 * tokens, found.sourceTokens)
        assertEquals(2 * tokens, found.targetTokens)
        assertEquals(2 * (tokens + 1), found.steps)
        assertEquals(2 * work.macs(tokens + 1, 2 * tokens + 10, tokens + 1), found.executedMacs)
        assertTrue(found.firstTokenMs > 0 && found.firstTokenMs < found.totalMs)
        assertEquals(0, echo.open)
    }

    @Test
    fun theWorkOfABeamIsThatOfAllItsRows() {
        val tokens = tokenizer.encode("A man.").size
        val found = translator(beamSize = 3).translate("A man.")
        assertTrue(echo.fedRows > echo.steps)
        assertEquals(work.macs(tokens + 1, 2 * tokens + 10, echo.fedRows), found.executedMacs)
    }

    @Test
    fun partialTextsLeadToTheTranslation() {
        val recorder = Recorder()
        val found = translator().translate("Hello \uD83D\uDE00 there.\nYes.", recorder)
        assertEquals("Hello \uD83D\uDE00 there.\nYes.", found.text)
        assertEquals(found.text, recorder.texts.last())
        assertTrue(recorder.texts.size > 4) { recorder.texts.toString() }
        // Each is longer than the one before, and none has half a character: the smiley is several tokens.
        recorder.texts.zipWithNext { before, after -> assertTrue(after.startsWith(before) && after != before) }
        assertFalse(recorder.texts.any { '\uFFFD' in it })
    }

    @Test
    fun longLinesAreCutAndPiecesJoined() {
        val line = "The first dog is brown. The second one is white and sleeps on the sofa"
        val found = translator(maxSourceTokens = 8).translate("Hi.\n$line")
        val pieces = splitText(line, 8) { tokenizer.encode(it).size }
        assertTrue(pieces.size > 2)
        assertEquals("Hi.\n$line", found.text)
        assertEquals(pieces.size + 1, found.pieces)
        assertEquals(pieces.map { tokenizer.encode(it).toList() }, sources.drop(1))
        assertEquals(listOf(Notice.Cut(2, pieces.size, tokenizer.encode(line).size, 8)), found.notices)
    }

    @Test
    fun aVeryLongLineIsTranslatedAndToldInPieces() {
        val line = "x".repeat(100_001)
        val recorder = Recorder()
        val found = translator().translate("$line\nYes.", recorder)
        assertEquals("$line\nYes.", found.text.replace(" ", ""))
        val head = tokenizer.encode(line.dropLast(1)).size
        assertEquals(listOf(Notice.Cut(1, found.pieces - 1, head, 200)), found.notices)
        assertEquals(found.text, recorder.texts.last())
        // Every step of the beginning, every piece of the rest: text that is told is text that is copied.
        assertTrue(recorder.texts.count { it.length > 21_000 } <= found.pieces)
        val short = translator(longInput = LongInput.TRUNCATE).translate(line)
        assertEquals(listOf(Notice.Truncated(1, head, 200)), short.notices)
    }

    @Test
    fun aCharacterOfMoreTokensThanTheModelTakesIsCut() {
        // The tokens of a cat are its bytes.
        val cat = "\uD83D\uDC31"
        val tokens = tokenizer.encode(cat)
        assertTrue(tokens.size >= 4) { tokens.toString() }
        val found = translator(maxSourceTokens = 2).translate("dog dog dog $cat dog")
        assertEquals(2, sources.maxOf { it.size })
        assertTrue(tokens.take(2) in sources) { sources.toString() }
        assertTrue(found.text.startsWith("dog dog dog") && found.text.endsWith("dog")) { found.text }
    }

    @Test
    fun longLinesAreTruncatedIfSoChosen() {
        val line = "The second one is white and sleeps on the sofa"
        val tokens = tokenizer.encode(line)
        val found = translator(maxSourceTokens = 5, longInput = LongInput.TRUNCATE).translate(line)
        assertEquals(listOf(tokens.take(5)), sources)
        assertEquals(tokenizer.decode(tokens.copyOf(5)), found.text)
        assertEquals(listOf(Notice.Truncated(1, tokens.size, 5)), found.notices)
    }

    @Test
    fun aBundleSaysHowItsOutputIsSearchedFor(@TempDir folder: File) {
        val line = "dog dog dog dog dog dog dog dog dog dog"
        val tokens = tokenizer.encode(line)
        val decoding = """{"length_penalty": 1.5, "no_repeat_ngram": 0, "min_length": 0, "max_length": 3, "long_input": "truncate",
            "max_source_tokens": 6}"""
        val short = Translator.of(bundle(folder, "short", decoding), echo, tokenizer = tokenizer).translate(line)
        assertEquals(listOf(Notice.Truncated(1, tokens.size, 6)), short.notices)
        assertEquals(tokens.take(3), short.tokens.single().toList())
        val noRepeats = decoding.replace("\"no_repeat_ngram\": 0", "\"no_repeat_ngram\": 1").replace("\"max_length\": 3", "\"max_length\": 0")
        val varied = Translator.of(bundle(folder, "varied", noRepeats), echo, tokenizer = tokenizer).translate(line).tokens.single()
        assertEquals(varied.toSet().size, varied.size)
        val long = decoding.replace("\"max_length\": 3", "\"max_length\": ${Int.MAX_VALUE}")
        val whole = Translator.of(bundle(folder, "long", long), echo, tokenizer = tokenizer).translate(line)
        assertEquals(tokens.take(6), whole.tokens.single().toList())
        val plain = Translator.of(bundle(folder, "plain", null), echo, tokenizer = tokenizer).translate(line)
        assertEquals(line, plain.text)
        assertEquals(emptyList<Notice>(), plain.notices)
    }

    private fun bundle(folder: File, name: String, decoding: String?): InstalledBundle {
        val made = TestBundle().apply { change = { if (decoding != null) it.put("decoding", JSONObject(decoding)) } }
        val directory = File(folder, name).apply { mkdirs() }
        for ((member, content) in made.files) File(directory, member).writeBytes(content)
        File(directory, "manifest.json").writeBytes(made.manifest())
        return InstalledBundle.open(directory, verify = false)
    }

    @Test
    fun theEngineBoundsTheSourceWithItsEndMark() {
        val small = ModelEngine(tokenizer.vocabSize, maxSourceTokens = 7) { _, _ ->
            FloatArray(tokenizer.vocabSize).also { it[SpecialTokens.EOS] = 1f }
        }
        val found = translator(engine = small).translate("one two three four five six seven eight nine ten")
        assertEquals(6, (found.notices.single() as Notice.Cut).limit)
        val tiny = ModelEngine(tokenizer.vocabSize, maxSourceTokens = 1) { _, _ -> FloatArray(0) }
        val error = assertThrows(LiteNlpException::class.java) { translator(engine = tiny) }
        assertEquals(Problem.UNSUPPORTED, error.problem)
    }

    @Test
    fun unfamiliarLettersAreTold() {
        val found = translator().translate("Hello.\n\u732B\u3068\u72AC cat")
        val fraction = tokenizer.unfamiliar("\u732B\u3068\u72AC cat")
        assertTrue(fraction >= 0.25)
        assertEquals(listOf(Notice.Unfamiliar(2, fraction)), found.notices)
        assertEquals("Hello.\n\u732B\u3068\u72AC cat", found.text)
    }

    @Test
    fun aLoneSurrogateIsRefusedBeforeAnythingIsTranslated() {
        val error = assertThrows(LiteNlpException::class.java) { translator().translate("Hello.\nx\uD800") }
        assertEquals(Problem.NOT_UNICODE, error.problem)
        assertEquals(emptyList<List<Int>>(), sources)
    }

    @Test
    fun cancellingStopsAtTheNextStep() {
        val recorder = Recorder(cancelAfter = 3)
        val error = assertThrows(LiteNlpException::class.java) {
            translator().translate("Hello there, said the dog to the cat.\nAnd more.", recorder)
        }
        assertEquals(Problem.CANCELLED, error.problem)
        assertEquals(3, recorder.texts.size)
        assertEquals(1, sources.size)
        assertEquals(0, echo.open)
    }

    private companion object {
        val tokenizer = GoldenVectors.tokenizer("shipped")

        val work = GraphWork.fromJson(
            JSONObject(
                """{"encode": {"matmul": [[1536, 2, 0], [1536000, 1, 0]]}, "decode_step": {"matmul": [[2048, 1, 0], [1024, 0, 1], [3079168, 0, 0]]}}""",
            ),
        )
    }
}
