package dev.litenlp.core.engine

/** Beam searches under way, which the engine takes steps of by itself. Threads and closing as for [Engine]. */
interface BeamDecoding : AutoCloseable {
    /**
     * Takes steps until one of the conditions of [call] ends it.
     *
     * @param call Of the first sentences at first, later of what the call before has left.
     * @throws dev.litenlp.core.LiteNlpException `RUNTIME_FAILED` or `OUT_OF_MEMORY` if the runtime fails, or gives what no search
     *   gives.
     * @throws IllegalArgumentException If an index is outside the state, or a step beyond the capacity.
     */
    fun search(call: BeamCall): BeamSteps
}

/**
 * What a call of [BeamDecoding.search] starts from, and when it ends.
 *
 * S: sentences, W: live hypotheses of each. Arrays are row-major; the decoding neither changes nor keeps them. Scores are
 * log-probabilities, divided by the penalty of their length where a hypothesis is finished.
 *
 * @property tokens (S, W) the latest of each live hypothesis; the begin mark at first.
 * @property parents (S, W) the rows of the state that they extend: at first that of the sentence, later one of W for each
 *   sentence of the call before.
 * @property kept (S) which of the state's sentences these are, in order; the others leave it.
 * @property live (S, W) best first; minus infinity where there is none.
 * @property best (S) scores of the best finished hypotheses; minus infinity where there is none.
 * @property finished (S) how many have been finished.
 * @property limits (S) steps that a sentence may take in all.
 * @property blocked (S * W, B) B at least 1, tokens that may not follow each hypothesis in any step of the call; -1 for none.
 * @property penalties The divisor for each length from 0 to that of the largest limit.
 * @property count Tokens that are ranked for each hypothesis: W and the most that [blocked] has in a row, but not more than there
 *   are.
 * @property step Steps before the call.
 * @property steps Most steps of it, at least 1.
 * @property leave It ends when so many sentences are done, 1 to S.
 * @property minLength Tokens before an end mark that is not forced.
 */
class BeamCall(
    val tokens: IntArray,
    val parents: IntArray,
    val kept: IntArray,
    val live: DoubleArray,
    val best: DoubleArray,
    val finished: IntArray,
    val limits: IntArray,
    val blocked: IntArray,
    val penalties: DoubleArray,
    val count: Int,
    val step: Int,
    val steps: Int,
    val leave: Int,
    val minLength: Int,
) {
    /** S. */
    val sentences: Int get() = kept.size

    /** W. */
    val width: Int get() = tokens.size / sentences
}

/**
 * What comes of a [BeamCall] of T steps. Arrays are row-major.
 *
 * @property steps T, 1 to what the call allows.
 * @property tokens (T, S, W) those of the live hypotheses after each step.
 * @property parents (T, S, W) the hypotheses that they extend: 0 to W - 1, of the step before.
 * @property live (S, W) as of the call.
 * @property best (S) as of the call.
 * @property origins (S) of the best finished hypotheses: 0 for that before the call, else 1 + t * W + w for the one that ends
 *   hypothesis w at step t of the call, from 0.
 * @property finished (S) as of the call.
 * @property done (S) whether nothing can change the best hypothesis of a sentence.
 * @property isSound Whether all log-probabilities were numbers.
 */
class BeamSteps(
    val steps: Int,
    val tokens: IntArray,
    val parents: IntArray,
    val live: DoubleArray,
    val best: DoubleArray,
    val origins: IntArray,
    val finished: IntArray,
    val done: BooleanArray,
    val isSound: Boolean,
)
