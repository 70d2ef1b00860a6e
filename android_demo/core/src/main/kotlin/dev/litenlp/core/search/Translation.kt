package dev.litenlp.core.search

/** Treatment of a line that is too long for the model: translate it in pieces, or its beginning alone. */
enum class LongInput { SPLIT, TRUNCATE }

/**
 * A line as it is translated; [Translator.sourceLines] makes them.
 *
 * @property text In the spelling that the model has learned from.
 * @property head The beginning of [text] that is tokenized in one piece; all of it up to 100,000 characters.
 * @property tokens Ids of [head]; none if there is nothing to translate.
 */
class SourceLine internal constructor(val text: String, val head: String, val tokens: IntArray)

/** Watches a translation; called on the thread that translates. */
interface TranslationListener {
    /**
     * There is more of the translation, or another hypothesis leads.
     *
     * @param text All of the translation so far, lines before the present one included. A character of which only some bytes
     *   are there yet is left out.
     */
    fun onText(text: String)

    /** Whether to give up: asked before every step. */
    fun isCancelled(): Boolean
}

/** Notice about one line of the text. */
sealed class Notice {
    /** Number of the line in the text, from 1. */
    abstract val line: Int

    /**
     * Many letters of the line are unknown to the model's vocabulary; the translation may be meaningless.
     *
     * @property fraction Of the line's letters, 0.25 to 1.
     */
    data class Unfamiliar(override val line: Int, val fraction: Double) : Notice()

    /**
     * The line was too long for the model: it was cut into pieces, translated one by one.
     *
     * @property pieces How many.
     * @property tokens Of the whole line, or its first 100,000 characters.
     * @property limit Tokens that the model takes at once.
     */
    data class Cut(override val line: Int, val pieces: Int, val tokens: Int, val limit: Int) : Notice()

    /**
     * The line was too long for the model: what is beyond its first [limit] tokens is not translated.
     *
     * @property tokens Of the whole line, or its first 100,000 characters.
     */
    data class Truncated(override val line: Int, val tokens: Int, val limit: Int) : Notice()
}

/**
 * A finished translation and what it took.
 *
 * @property text As many lines as the source has, joined by "\n".
 * @property sourceTokens Handed to the model, end marks not counted.
 * @property targetTokens Produced, end marks not counted.
 * @property pieces Sources that the model was given, 0 if there was nothing to translate.
 * @property steps Decoder steps of all pieces; one step serves all rows of a beam.
 * @property firstTokenMs Milliseconds from the call to the end of the first step: tokenizing, encoding and that step; 0 if
 *   there was nothing to translate.
 * @property totalMs Milliseconds from the call to the last token.
 * @property executedMacs Mult-Adds that the graphs executed for this text; 0 if the translator was not told their work.
 * @property notices In the order of their lines.
 * @property tokens Produced ids without special ones, one array per piece: what two runtimes must agree in.
 */
class Translation(
    val text: String,
    val sourceTokens: Int,
    val targetTokens: Int,
    val pieces: Int,
    val steps: Int,
    val firstTokenMs: Double,
    val totalMs: Double,
    val executedMacs: Long,
    val notices: List<Notice>,
    val tokens: List<IntArray>,
)
