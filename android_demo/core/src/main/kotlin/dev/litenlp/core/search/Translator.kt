package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.metrics.MeteredEngine
import dev.litenlp.core.tokenizer.Tokenizer
import java.text.Normalizer

/**
 * Translates text with any engine, line by line, as `lite_nlp/decoding/translate.py` does: every line has a translation,
 * whatever it holds.
 *
 * An empty or blank line gives an empty line. A line of more than [maxSourceTokens] tokens is cut into pieces (see [splitText]),
 * whose translations are joined by spaces, or loses what is beyond them. A line in letters unknown to the vocabulary is
 * translated from its bytes. All three are told in [Translation.notices].
 *
 * A translator belongs to the thread of its engine.
 *
 * @param tokenizer Of the model.
 * @param engine Of the model; the translator does not close it.
 * @param options How to search.
 * @param longInput What to do with a line that is too long.
 * @param maxSourceTokens Longest source handed to the model, the end mark not counted, at least 1; the engine may take fewer. Of a
 *   character of more tokens the first are read. Models are trained on sentences, not on pages.
 * @param work Of the bundle's graphs, for [Translation.executedMacs].
 * @throws LiteNlpException `UNSUPPORTED` if the engine takes no source of a token and the end mark.
 */
class Translator(
    private val tokenizer: Tokenizer,
    private val engine: Engine,
    private val options: SearchOptions = SearchOptions(),
    private val longInput: LongInput = LongInput.SPLIT,
    maxSourceTokens: Int = MAX_SOURCE_TOKENS,
    private val work: GraphWork? = null,
) {
    private val maxSourceTokens = minOf(maxSourceTokens, engine.maxSourceTokens - 1)

    init {
        if (this.maxSourceTokens < 1) {
            throw LiteNlpException(
                Problem.UNSUPPORTED,
                "longest source: expected at least 1 token and the end mark, found ${this.maxSourceTokens}",
            )
        }
    }

    /**
     * Translates [text], line by line as [sourceLines] has them.
     *
     * @param listener Watches and may cancel.
     * @throws LiteNlpException `NOT_UNICODE` if the text holds a lone surrogate, `CANCELLED`, and what the engine throws.
     */
    fun translate(text: String, listener: TranslationListener? = null): Translation {
        val run = Run(listener)
        // All of them first: what is wrong with the last line is said before the first is translated.
        val sources = sourceLines(text, tokenizer).mapIndexed { index, line -> piecesOf(line, index + 1, run.notices) }
        for (pieces in sources) run.translateLine(pieces)
        return run.finish()
    }

    /** Token ids of the pieces of a line; none if there is nothing to translate. */
    private fun piecesOf(line: SourceLine, number: Int, notices: MutableList<Notice>): List<IntArray> {
        val tokens = line.tokens
        if (tokens.isEmpty()) return emptyList()
        val unfamiliar = tokenizer.unfamiliar(line.head)
        if (unfamiliar >= UNFAMILIAR) notices.add(Notice.Unfamiliar(number, unfamiliar))
        if (tokens.size <= maxSourceTokens && line.head.length == line.text.length) return listOf(tokens)
        if (longInput == LongInput.TRUNCATE) {
            notices.add(Notice.Truncated(number, tokens.size, maxSourceTokens))
            return listOf(tokens.copyOf(maxSourceTokens))
        }
        val pieces = splitText(line.text, maxSourceTokens) { tokenizer.encode(it).size }
        notices.add(Notice.Cut(number, pieces.size, tokens.size, maxSourceTokens))
        // One character may be more tokens than the model takes: a ligature that normalization spells out.
        return pieces.map(tokenizer::encode).filter { it.isNotEmpty() }.map { it.copyOf(minOf(it.size, maxSourceTokens)) }
    }

    /** One call of [translate]: what there is so far, and what it took. */
    private inner class Run(private val listener: TranslationListener?) {
        val notices = ArrayList<Notice>()
        private val startNs = System.nanoTime()
        private val meter = MeteredEngine(engine, work)
        private val finished = StringBuilder()
        private var lines = 0
        private val tokens = ArrayList<IntArray>()
        private var sourceTokens = 0
        private var firstTokenMs = 0.0
        private var told = ""

        fun translateLine(sources: List<IntArray>) {
            if (lines++ > 0) finished.append('\n')
            sources.forEachIndexed { place, source ->
                if (place > 0) finished.append(' ')
                val best = search(meter, listOf(source), options, watcher).single()
                finished.append(lineOf(best.tokens))
                tokens.add(best.tokens)
                sourceTokens += source.size
                if (finished.length >= STREAMED_CHARACTERS) tell { finished.toString() }
            }
        }

        fun finish(): Translation {
            val totalMs = elapsedMs()
            val text = finished.toString()
            tell { text }
            return Translation(
                text,
                sourceTokens,
                tokens.sumOf { it.size },
                tokens.size,
                meter.steps.toInt(),
                firstTokenMs,
                totalMs,
                meter.macs,
                notices,
                tokens,
            )
        }

        private fun elapsedMs(): Double = (System.nanoTime() - startNs) / 1e6

        private fun tell(makeText: () -> String) {
            if (listener == null) return
            val text = makeText()
            if (text == told) return
            told = text
            listener.onText(text)
        }

        /** Turns the tokens of a search under way into all of the text so far, while that is short: every step repeats it. */
        private val watcher = object : SearchListener {
            override fun onStep(best: IntArray) {
                if (firstTokenMs == 0.0) firstTokenMs = elapsedMs()
                if (finished.length >= STREAMED_CHARACTERS) return
                // The last character may lack some of its bytes.
                tell { finished.toString() + lineOf(best).trimEnd('\uFFFD') }
            }

            override fun isCancelled(): Boolean = listener != null && listener.isCancelled()
        }
    }

    /** One line out per line in: whatever a reader may take for the end of a line becomes a space. */
    private fun lineOf(tokens: IntArray): String = PythonText.joinLines(tokenizer.decode(tokens))

    companion object {
        /** Default for the longest source in tokens. */
        const val MAX_SOURCE_TOKENS = 200

        /** A line with at least this fraction of letters that the vocabulary has no token for is told of. */
        private const val UNFAMILIAR = 0.25

        /** Code points of a line that are tokenized at once, which takes some memory for each; what is beyond only in pieces. */
        private const val WHOLE_CHARACTERS = 100_000

        /** All of the text is told again at every step up to so many characters, then at every piece. */
        private const val STREAMED_CHARACTERS = 20_000

        private const val BYTE_ORDER_MARK = "\uFEFF"

        /** As phones and text processors write them. */
        private const val APOSTROPHES = "\u2019\u2018\u02BC"

        /** Soft hyphen, zero-width space, marks of direction, word joiner, byte order mark. */
        private const val INVISIBLE = "\u00AD\u200B\u200E\u200F\u2060\uFEFF"

        /** Other spellings of the same line, each tried on the result of those before it. */
        private val RESPELLED: List<(String) -> String> = listOf(
            { text -> text.filterNot { it in INVISIBLE } },
            { text -> Normalizer.normalize(text, Normalizer.Form.NFC) },
            { text -> text.map { if (it in APOSTROPHES) '\'' else it }.joinToString("") },
        )

        /**
         * The lines of a text as they are translated: only "\n" ends one; a byte order mark before it is dropped, every other kind
         * of line break becomes a space, or is dropped at its end, and the line is spelled as the model has learned it.
         *
         * @throws LiteNlpException `NOT_UNICODE` if the text holds a lone surrogate.
         */
        fun sourceLines(text: String, tokenizer: Tokenizer): List<SourceLine> = text.split('\n').map { given ->
            val line = learnedSpelling(PythonText.joinLines(given.removePrefix(BYTE_ORDER_MARK)), tokenizer)
            val head = headOf(line)
            SourceLine(line, head, tokenizer.encode(head))
        }

        /**
         * A line as the text that the model has learned from would spell it, as `learned_spelling` of
         * `lite_nlp/decoding/text_codec.py` does: without white space around it, with single spaces, and, each where the vocabulary
         * then has fewer tokens for it, without invisible characters, with composed letters and with plain apostrophes.
         */
        private fun learnedSpelling(line: String, tokenizer: Tokenizer): String =
            RESPELLED.fold(singleSpaces(line)) { text, respelled ->
                val other = singleSpaces(respelled(text))
                if (other != text && countTokens(other, tokenizer) < countTokens(text, tokenizer)) other else text
            }

        private fun singleSpaces(line: String): String = PythonText.singleSpaces(PythonText.strip(line))

        private fun countTokens(line: String, tokenizer: Tokenizer): Int = tokenizer.encode(headOf(line)).size

        /** The beginning of a line that is tokenized in one piece. */
        private fun headOf(line: String): String {
            if (line.length <= WHOLE_CHARACTERS || line.codePointCount(0, line.length) <= WHOLE_CHARACTERS) return line
            return line.substring(0, line.offsetByCodePoints(0, WHOLE_CHARACTERS))
        }

        /**
         * A translator that searches as the bundle's model wants it, which is what `lite-nlp translate` does, and counts
         * Mult-Adds if the bundle records its graphs' work.
         *
         * @param engine Of the bundle; the translator does not close it.
         * @param beamSize Hypotheses kept per sentence; 1 is greedy search.
         * @param tokenizer Of the bundle, if it has been read already.
         * @throws LiteNlpException if the tokenizer cannot be read
         */
        fun of(
            bundle: InstalledBundle,
            engine: Engine,
            beamSize: Int = 1,
            tokenizer: Tokenizer = bundle.tokenizer(),
        ): Translator {
            val work = bundle.manifest.graphs.optJSONObject(engine.runtime)?.let(GraphWork::fromJson)
            val options = optionsOf(bundle.manifest, beamSize)
            val wanted = bundle.manifest.decoding ?: return Translator(tokenizer, engine, options, work = work)
            val longInput = if (wanted.truncates) LongInput.TRUNCATE else LongInput.SPLIT
            return Translator(tokenizer, engine, options, longInput, wanted.maxSourceTokens, work)
        }

        /** How the model of a bundle wants to be searched. */
        fun optionsOf(manifest: Manifest, beamSize: Int): SearchOptions {
            val wanted = manifest.decoding ?: return SearchOptions(beamSize)
            return SearchOptions(
                beamSize = beamSize,
                // The end mark takes a step too. A manifest may allow any length.
                maxSteps = if (wanted.maxLength > 0) minOf(wanted.maxLength, Int.MAX_VALUE - 1) + 1 else null,
                minLength = wanted.minLength,
                lengthPenalty = wanted.lengthPenalty,
                noRepeatNgram = wanted.noRepeatNgram,
            )
        }
    }
}
