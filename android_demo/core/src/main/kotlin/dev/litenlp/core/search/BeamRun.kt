package dev.litenlp.core.search

import dev.litenlp.core.engine.BeamCall
import dev.litenlp.core.engine.BeamDecoding
import dev.litenlp.core.engine.BeamSteps

/** Of the sentences of a batch, the part after whose end the others go on without them. */
private const val LEAVING = 0.25

/**
 * The state of a search between calls of a [BeamDecoding]: S sentences still in the batch, W live hypotheses each.
 *
 * @param limits Steps allowed per sentence, at least 1 each.
 */
internal class BeamRun(private val options: SearchOptions, private val limits: IntArray, private val vocabSize: Int) {
    private val width = options.beamSize
    private val penalties = DoubleArray(limits.max() + 1) { lengthPenalty(it, options.lengthPenalty) }
    private val best = Array(limits.size) { Hypothesis(IntArray(0), Double.NEGATIVE_INFINITY) }

    private var step = 0
    private var sentences = IntArray(limits.size) { it }

    /** (S) places of [sentences] in the latest call. */
    private var kept = sentences

    /** (S * W) rows of the latest step. */
    private var parents = IntArray(limits.size * width) { it / width }
    private var latest = IntArray(limits.size * width) { SpecialTokens.BOS }
    private var live = DoubleArray(limits.size * width) { if (it % width == 0) 0.0 else Double.NEGATIVE_INFINITY }
    private var finished = IntArray(limits.size)

    /** (S * W) tokens produced, [step] of each. */
    private var histories = List(limits.size * width) { IntArray(0) }

    /** Whether every sentence is. */
    val isDone: Boolean get() = sentences.isEmpty()

    /** The next call, of at most [most] steps. */
    fun call(most: Int): BeamCall {
        val allowed = IntArray(sentences.size) { limits[sentences[it]] }
        val blocked = histories.map { repeatedTokens(it, options.noRepeatNgram) }
        val columns = blocked.maxOf { it.size }
        // What may not follow depends on what came before.
        val steps = if (options.noRepeatNgram > 0) 1 else minOf(most, allowed.max() - step)
        return BeamCall(
            tokens = latest,
            parents = parents,
            kept = kept,
            live = live,
            best = DoubleArray(sentences.size) { best[sentences[it]].score },
            finished = finished,
            limits = allowed,
            blocked = padded(blocked, maxOf(1, columns)),
            penalties = penalties,
            // So many that the best are among them, whatever is blocked.
            count = minOf(width + columns, vocabSize - SpecialTokens.COUNT),
            step = step,
            steps = steps,
            leave = maxOf(1, (LEAVING * sentences.size).toInt()),
            minLength = options.minLength,
        )
    }

    private fun padded(rows: List<IntArray>, columns: Int): IntArray {
        val all = IntArray(rows.size * columns) { -1 }
        rows.forEachIndexed { row, tokens -> tokens.copyInto(all, row * columns) }
        return all
    }

    /**
     * Goes on by what a call has made.
     *
     * @throws dev.litenlp.core.LiteNlpException `RUNTIME_FAILED` if the model has produced logits that are not finite.
     */
    fun take(made: BeamSteps) {
        if (!made.isSound) throw damagedModel()
        keepFinished(made)
        val going = sentences.indices.filter { !made.done[it] }
        val rows = going.flatMap { place -> List(width) { place * width + it } }
        val last = (made.steps - 1) * sentences.size * width
        histories = rows.map { tokensOf(made, it / width, made.steps, it % width) }
        parents = IntArray(rows.size) { rows[it] / width * width + made.parents[last + rows[it]] }
        latest = IntArray(rows.size) { made.tokens[last + rows[it]] }
        live = DoubleArray(rows.size) { made.live[rows[it]] }
        kept = going.toIntArray()
        finished = IntArray(kept.size) { made.finished[kept[it]] }
        sentences = IntArray(kept.size) { sentences[kept[it]] }
        step += made.steps
    }

    private fun keepFinished(made: BeamSteps) {
        for ((place, sentence) in sentences.withIndex()) {
            val origin = made.origins[place] - 1
            if (origin >= 0) best[sentence] = Hypothesis(tokensOf(made, place, origin / width, origin % width), made.best[place])
        }
    }

    /** The tokens of a hypothesis of the sentence at [place] before step [before] of a call. */
    private fun tokensOf(made: BeamSteps, place: Int, before: Int, hypothesis: Int): IntArray {
        val tokens = IntArray(step + before)
        var parent = hypothesis
        for (earlier in before - 1 downTo 0) {
            val index = (earlier * sentences.size + place) * width + parent
            tokens[step + earlier] = made.tokens[index]
            parent = made.parents[index]
        }
        return histories[place * width + parent].copyInto(tokens)
    }

    /** Argument of [SearchListener.onStep]. */
    fun leader(): IntArray = (if (sentences.firstOrNull() == 0) histories[0] else best[0].tokens).copyOf()

    fun hypotheses(): List<Hypothesis> = best.asList()
}
