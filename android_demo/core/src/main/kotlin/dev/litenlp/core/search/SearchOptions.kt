package dev.litenlp.core.search

/** Ids of the special tokens: the same in every vocabulary of this project, and smaller than those of all other tokens. */
object SpecialTokens {
    /** Fills up short sources. */
    const val PAD = 0

    /** Begins a decoding. */
    const val BOS = 1

    /** Ends a source and a translation. */
    const val EOS = 2

    /** Number of special tokens. */
    const val COUNT = 3
}

/**
 * Options of the search.
 *
 * A sentence of n source tokens gets `(maxLengthRatio * n).toInt() + maxLengthExtra` steps, but at most [maxSteps]; the end
 * mark takes one, and is forced in the last. An output of fewer than [minLength] tokens does not end unless its steps are used
 * up or no token is allowed to follow.
 *
 * @property beamSize Hypotheses kept per sentence, 1 to [MAX_BEAM]; 1 is greedy search.
 * @property maxLengthRatio Steps per source token.
 * @property maxLengthExtra Steps on top of that.
 * @property maxSteps Bound whatever the source length, null for that of the engine.
 * @property minLength Fewest tokens of an output, the end mark not counted.
 * @property lengthPenalty Exponent of [lengthPenalty]; no effect on greedy search but on the score.
 * @property noRepeatNgram No n-gram of this many tokens occurs twice in an output; 0 allows all.
 * @throws IllegalArgumentException If a value is out of range.
 */
data class SearchOptions(
    val beamSize: Int = 1,
    val maxLengthRatio: Double = 2.0,
    val maxLengthExtra: Int = 10,
    val maxSteps: Int? = null,
    val minLength: Int = 0,
    val lengthPenalty: Double = 0.6,
    val noRepeatNgram: Int = 0,
) {
    init {
        require(beamSize >= 1) { "beamSize: expected at least 1, found $beamSize" }
        require(beamSize <= MAX_BEAM) { "beamSize: expected at most $MAX_BEAM, found $beamSize" }
        require(maxLengthRatio >= 0) { "maxLengthRatio: expected at least 0, found $maxLengthRatio" }
        require(maxLengthExtra >= 1) { "maxLengthExtra: expected at least 1, found $maxLengthExtra" }
        require(maxSteps == null || maxSteps >= 1) { "maxSteps: expected at least 1, found $maxSteps" }
        require(minLength >= 0) { "minLength: expected at least 0, found $minLength" }
        require(lengthPenalty >= 0) { "lengthPenalty: expected at least 0, found $lengthPenalty" }
        require(noRepeatNgram >= 0) { "noRepeatNgram: expected at least 0, found $noRepeatNgram" }
    }

    companion object {
        /** Most hypotheses: every vocabulary has a token for each of 256 bytes, so there are always as many extensions. */
        const val MAX_BEAM = 256
    }

    /** Steps for a sentence of [sourceLength] tokens, the end mark not counted, on an engine that takes [most]. */
    fun steps(sourceLength: Int, most: Int): Int {
        val steps = (maxLengthRatio * sourceLength).toLong().coerceAtMost(Int.MAX_VALUE.toLong()) + maxLengthExtra
        return minOf(steps, (maxSteps ?: most).toLong(), most.toLong()).toInt()
    }
}

/**
 * One translation.
 *
 * @property tokens Ids without special ones.
 * @property score Log-probability in nats, divided by [lengthPenalty]; -infinity if no output was possible.
 */
class Hypothesis(val tokens: IntArray, val score: Double)

/** Watches a search; called on its thread. */
interface SearchListener {
    /**
     * A step is done.
     *
     * @param best Tokens of the best hypothesis of the first source: the live one that leads, and once that source is settled
     *   its translation. A copy.
     */
    fun onStep(best: IntArray)

    /** Whether to give up: asked before the sources are encoded and before every step. */
    fun isCancelled(): Boolean
}
