package dev.litenlp.core.engine

/** Kinds of reordering, by the state tensors that move. */
internal enum class Reordering {
    /** Every row stays what it is. */
    NOTHING,

    /** Each row stays with its sentence: what a step changes moves, what belongs to the sentence does not. */
    WITHIN_SENTENCES,

    /** Rows change their sentences. */
    EVERYTHING,
}

/**
 * The rows of a decoding: which sentence each belongs to, and the steps that are left.
 *
 * @param sentences Rows at the start, one for each sentence.
 * @param capacity Steps in all.
 */
internal class RowTable(sentences: Int, private val capacity: Int) {
    private var sentences = IntArray(sentences) { it }
    private var steps = 0

    /** Rows now. */
    val count: Int get() = sentences.size

    /**
     * Counts a step.
     *
     * @throws IllegalStateException If the capacity is used up.
     * @throws IllegalArgumentException If there is not one token for every row, or one is outside the vocabulary.
     */
    fun beginStep(tokens: IntArray, vocabSize: Int) {
        check(steps < capacity) { "step: the decoding was started for $capacity steps, which are used up" }
        require(tokens.size == count) { "step: expected $count tokens, one for each row, found ${tokens.size}" }
        for (token in tokens) require(token in 0 until vocabSize) { "step: expected token ids 0 to ${vocabSize - 1}, found $token" }
        steps++
    }

    /**
     * Classifies a reordering; [commit] carries it out.
     *
     * @throws IllegalArgumentException If a row is not among the present ones, or there is none.
     */
    fun classify(rows: IntArray): Reordering {
        require(rows.isNotEmpty()) { "reorder: expected at least one row, found none" }
        for (row in rows) require(row in 0 until count) { "reorder: expected rows 0 to ${count - 1}, found $row" }
        return when {
            rows.size != count -> Reordering.EVERYTHING
            rows.indices.all { rows[it] == it } -> Reordering.NOTHING
            rows.indices.all { sentences[rows[it]] == sentences[it] } -> Reordering.WITHIN_SENTENCES
            else -> Reordering.EVERYTHING
        }
    }

    /** Makes row `i` what row `rows[i]` was. */
    fun commit(rows: IntArray) {
        sentences = IntArray(rows.size) { sentences[rows[it]] }
    }
}
