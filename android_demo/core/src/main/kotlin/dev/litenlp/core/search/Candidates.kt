package dev.litenlp.core.search

/**
 * The ways one step can extend the live hypotheses of one sentence; scores are log-probabilities.
 *
 * A hypothesis that is dead (score -infinity, when there are fewer extensions than places) only has dead extensions. Used for
 * one sentence after the other: [clear], [add] every hypothesis, [choose], read.
 *
 * @param beamSize Hypotheses kept.
 * @param perHypothesis Tokens ranked for each hypothesis.
 */
internal class Candidates(private val beamSize: Int, private val perHypothesis: Int) {
    private val endScores = DoubleArray(beamSize)
    private val scores = DoubleArray(beamSize * perHypothesis)
    private val tokens = IntArray(beamSize * perHypothesis)
    private val chosen = IntArray(beamSize)
    private var hypotheses = 0
    private var chosenCount = 0

    fun clear() {
        hypotheses = 0
    }

    /**
     * Adds the extensions of the next hypothesis.
     *
     * @param row Its tokens.
     * @param live Its log-probability.
     * @param endLogit Logit of its end.
     * @param mayEnd Whether it is long enough to end; one that no token can extend may end in any case.
     * @param mustEnd Whether no step is left, so that only the end mark may follow.
     */
    fun add(row: RowTokens, live: Double, endLogit: Float, mayEnd: Boolean, mustEnd: Boolean) {
        val first = hypotheses * perHypothesis
        for (rank in 0 until perHypothesis) {
            scores[first + rank] = live + (row.logits[rank] - row.normalizer)
            tokens[first + rank] = row.tokens[rank]
        }
        val isExtended = scores[first] > Double.NEGATIVE_INFINITY
        endScores[hypotheses] = if (mayEnd || !isExtended) live + (endLogit - row.normalizer) else Double.NEGATIVE_INFINITY
        if (mustEnd) scores.fill(Double.NEGATIVE_INFINITY, first, first + perHypothesis)
        hypotheses++
    }

    /** Finds the best extensions by a token; of equal ones those added first. */
    fun choose() {
        val count = hypotheses * perHypothesis
        val places = minOf(beamSize, count)
        chosenCount = 0
        for (candidate in 0 until count) {
            if (chosenCount == places && scores[candidate] <= scores[chosen[places - 1]]) continue
            var place = if (chosenCount < places) chosenCount++ else places - 1
            while (place > 0 && scores[chosen[place - 1]] < scores[candidate]) {
                chosen[place] = chosen[place - 1]
                place--
            }
            chosen[place] = candidate
        }
    }

    /** Whether ending [hypothesis] here is among the `beamSize` best candidates; equal ends precede tokens. */
    fun ends(hypothesis: Int): Boolean {
        val score = endScores[hypothesis]
        if (score == Double.NEGATIVE_INFINITY) return false
        var before = 0
        for (other in 0 until hypotheses) {
            if (endScores[other] > score || (endScores[other] == score && other < hypothesis)) before++
        }
        // Of the tokens only the chosen can precede: when all of them do, there is no place left in any case.
        for (rank in 0 until chosenCount) if (score(rank) > score) before++
        return before < beamSize
    }

    /** Log-probability of ending [hypothesis] here. */
    fun endScore(hypothesis: Int): Double = endScores[hypothesis]

    /** Log-probability of the extension of rank [rank]. */
    fun score(rank: Int): Double = scores[chosen[rank]]

    /** The hypothesis that it extends. */
    fun parent(rank: Int): Int = chosen[rank] / perHypothesis

    /** The token by which. */
    fun token(rank: Int): Int = tokens[chosen[rank]]
}
