package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.engine.BeamDecoding
import dev.litenlp.core.engine.Engine

/**
 * The best hypothesis for every source, all of them in one batch: the search of `lite_nlp/decoding/search.py`, token for token.
 *
 * Every step ranks, for each sentence, all extensions of its live hypotheses. Ends among the `beamSize` best become finished
 * hypotheses; the best `beamSize` others live on. A sentence is done, and leaves the batch, when `beamSize` hypotheses are
 * finished, when no live one can overtake the best, or when its steps are used up. The result for a sentence does not depend
 * on the others in the batch.
 *
 * Of equal candidates an end precedes a token, a better hypothesis a worse one, and of one hypothesis the smaller id the
 * greater: NumPy's order, but for equal tokens of one hypothesis in a beam, which NumPy leaves in no order.
 *
 * @param sources Token ids without special ones; the end mark is added here.
 * @param listener Watches and may cancel.
 * @return One hypothesis per source, in their order.
 * @throws LiteNlpException `CANCELLED`, `RUNTIME_FAILED` if the model produces logits that are not finite, and what the engine
 *   throws.
 */
fun search(
    engine: Engine,
    sources: List<IntArray>,
    options: SearchOptions,
    listener: SearchListener? = null,
): List<Hypothesis> {
    if (sources.isEmpty()) return emptyList()
    stopIfCancelled(listener)
    require(engine.vocabSize > SpecialTokens.COUNT) {
        "vocabulary: expected more than the special types, found ${engine.vocabSize} types"
    }
    val limits = IntArray(sources.size) { options.steps(sources[it].size, engine.maxSteps) }
    val ended = sources.map { it + SpecialTokens.EOS }
    engine.startBeams(ended, limits.max())?.use { return searchBeams(it, BeamRun(options, limits, engine.vocabSize), listener) }
    val run = SearchRun(options, limits, engine.vocabSize)
    engine.start(ended, run.capacity).use { decoding ->
        while (true) {
            stopIfCancelled(listener)
            val logits = decoding.step(run.latest)
            val rows = run.advance(logits)
            listener?.onStep(run.leader())
            if (rows.isEmpty()) return run.hypotheses()
            if (rows.size != decoding.rows || rows.indices.any { rows[it] != it }) decoding.reorder(rows)
        }
    }
}

/** Without a listener there is no reason to come back before sentences are done. */
private fun searchBeams(decoding: BeamDecoding, run: BeamRun, listener: SearchListener?): List<Hypothesis> {
    val most = if (listener == null) Int.MAX_VALUE else 1
    while (!run.isDone) {
        stopIfCancelled(listener)
        run.take(decoding.search(run.call(most)))
        listener?.onStep(run.leader())
    }
    return run.hypotheses()
}

private fun stopIfCancelled(listener: SearchListener?) {
    if (listener != null && listener.isCancelled()) throw LiteNlpException(Problem.CANCELLED, "search: cancelled")
}

/**
 * The search's own state: S sentences still in the batch, W live hypotheses each, the same for all.
 *
 * @param limits Steps allowed per sentence.
 */
private class SearchRun(private val options: SearchOptions, private val limits: IntArray, private val vocabSize: Int) {
    /** Steps that the longest sentence is allowed. */
    val capacity = limits.max()

    /** (S * W) tokens to consume next. */
    var latest = IntArray(limits.size) { SpecialTokens.BOS }
        private set

    private val ranked = RowTokens(vocabSize, options.beamSize)
    private val blocked = BlockedTokens(vocabSize, options.noRepeatNgram)
    private val candidates = Candidates(options.beamSize, ranked.count)

    private val bestTokens = Array(limits.size) { IntArray(0) }
    private val bestScores = DoubleArray(limits.size) { Double.NEGATIVE_INFINITY }
    private val finished = IntArray(limits.size)

    private var step = 0
    private var width = 1
    private var sentences = IntArray(limits.size) { it }
    private var live = Places(limits.size)
    private var next = Places(limits.size)

    /** Log-probability and tokens produced of every row; a row's tokens start at `row * capacity`. */
    private inner class Places(count: Int) {
        val scores = DoubleArray(count * options.beamSize)
        val tokens = IntArray(count * options.beamSize * capacity)
    }

    /** Extends all hypotheses by one token; returns which rows of [logits] go on, in order. */
    fun advance(logits: FloatArray): IntArray {
        step++
        val nextWidth = minOf(options.beamSize, width * ranked.count)
        val rows = IntArray(sentences.size * nextWidth)
        val nextLatest = IntArray(rows.size)
        val going = IntArray(sentences.size)
        var remaining = 0
        for (place in sentences.indices) {
            val sentence = sentences[place]
            extend(logits, place)
            finish(place)
            if (isSettled(sentence)) continue
            for (rank in 0 until nextWidth) {
                val row = remaining * nextWidth + rank
                rows[row] = place * width + candidates.parent(rank)
                nextLatest[row] = candidates.token(rank)
                next.scores[row] = candidates.score(rank)
                System.arraycopy(live.tokens, rows[row] * capacity, next.tokens, row * capacity, step - 1)
                next.tokens[row * capacity + step - 1] = nextLatest[row]
            }
            going[remaining++] = sentence
        }
        live = next.also { next = live }
        sentences = going.copyOf(remaining)
        width = nextWidth
        latest = nextLatest.copyOf(remaining * nextWidth)
        return rows.copyOf(remaining * nextWidth)
    }

    /** Ranks the extensions of the hypotheses of the sentence at [place] of the batch. */
    private fun extend(logits: FloatArray, place: Int) {
        val mustEnd = limits[sentences[place]] <= step
        val mayEnd = mustEnd || step > options.minLength
        candidates.clear()
        for (hypothesis in 0 until width) {
            val row = place * width + hypothesis
            blocked.read(live.tokens, row * capacity, step - 1)
            ranked.rank(logits, row * vocabSize, blocked)
            candidates.add(ranked, live.scores[row], logits[row * vocabSize + SpecialTokens.EOS], mayEnd, mustEnd)
        }
        candidates.choose()
    }

    /** Keeps the best of the ends among the candidates of the sentence at [place]. */
    private fun finish(place: Int) {
        val sentence = sentences[place]
        for (hypothesis in 0 until width) {
            if (!candidates.ends(hypothesis)) continue
            finished[sentence]++
            val score = candidates.endScore(hypothesis) / lengthPenalty(step, options.lengthPenalty)
            if (score > bestScores[sentence]) {
                val start = (place * width + hypothesis) * capacity
                bestScores[sentence] = score
                bestTokens[sentence] = live.tokens.copyOfRange(start, start + step - 1)
            }
        }
    }

    /**
     * Whether the best hypothesis of a sentence can change no more.
     *
     * A log-probability only falls as a hypothesis grows, so dividing the present one by the penalty of the greatest length
     * bounds the score that a live hypothesis can still reach.
     */
    private fun isSettled(sentence: Int): Boolean {
        if (finished[sentence] >= options.beamSize || limits[sentence] <= step) return true
        return bestScores[sentence] >= candidates.score(0) / lengthPenalty(limits[sentence], options.lengthPenalty)
    }

    /** Argument of [SearchListener.onStep]. */
    fun leader(): IntArray =
        if (sentences.isNotEmpty() && sentences[0] == 0) live.tokens.copyOf(step) else bestTokens[0].copyOf()

    fun hypotheses(): List<Hypothesis> = bestTokens.indices.map { Hypothesis(bestTokens[it], bestScores[it]) }
}
