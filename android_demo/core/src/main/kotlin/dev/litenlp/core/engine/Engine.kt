package dev.litenlp.core.engine

import dev.litenlp.core.bundle.InstalledBundle

/**
 * The two graphs of a bundle in a runtime, ready to run.
 *
 * An engine belongs to one thread at a time: neither it nor its decodings lock anything. After [close] every other call
 * throws [IllegalStateException]; closing again is harmless. Closing an engine closes the decodings it has started.
 */
interface Engine : AutoCloseable {
    /** The runtime's [dev.litenlp.core.bundle.RuntimeKind.key]. */
    val runtime: String

    /** The runtime's own version, as it reports it. */
    val version: String

    /** Longest source in tokens, end mark included. */
    val maxSourceTokens: Int

    /** Most steps of a decoding, which is also the largest capacity. */
    val maxSteps: Int

    /** Types of the target vocabulary: the logits of one row. */
    val vocabSize: Int

    /**
     * Encodes the sources and makes the first state of a decoding.
     *
     * @param sources One row of token ids per sentence, at least one, each ending with the end mark and without padding:
     *   the engine pads. Any number of rows: where a runtime takes fewer at once, the engine splits them. Neither the list nor
     *   its arrays are changed or kept.
     * @param capacity Steps that the decoding has place for, 1 to [maxSteps].
     * @throws dev.litenlp.core.LiteNlpException `TOO_LARGE` if a source or the capacity exceeds the bounds,
     *   `OTHER_TOKENIZER` if a token is outside the vocabulary, `RUNTIME_REFUSED` if the runtime does not take a graph that no
     *   call has needed before, `RUNTIME_FAILED` or `OUT_OF_MEMORY` if it fails.
     */
    fun start(sources: List<IntArray>, capacity: Int): Decoding

    /**
     * Encodes the sources and makes the first state of beam searches; parameters and failures as of [start].
     *
     * @return Null if the engine takes no steps of a search by itself.
     */
    fun startBeams(sources: List<IntArray>, capacity: Int): BeamDecoding? = null
}

/** Translations under way, one row each: what the decoder carries from step to step. Threads and closing as for [Engine]. */
interface Decoding : AutoCloseable {
    /** Rows now: those of the sources, or of the last [reorder]. */
    val rows: Int

    /**
     * Feeds one token to every row.
     *
     * @param tokens Ids, [rows] of them; the begin mark first.
     * @return Logits of the next tokens, row-major `(rows, vocabSize)`. The array may be longer than that and belongs to the
     *   decoding: it holds until the next call, and the caller must not change it.
     * @throws dev.litenlp.core.LiteNlpException `RUNTIME_FAILED` or `OUT_OF_MEMORY` if the runtime fails.
     * @throws IllegalStateException If the capacity is used up.
     */
    fun step(tokens: IntArray): FloatArray

    /**
     * Makes row `i` what row `rows[i]` was: rows may be repeated, left out and moved.
     *
     * @param rows Indices 0 to [Decoding.rows] - 1, at least one.
     */
    fun reorder(rows: IntArray)
}

/** Opens bundles in one runtime. */
interface EngineFactory {
    /** As in [Engine.runtime]. */
    val runtime: String

    /**
     * Loads the graphs of a bundle.
     *
     * @param threads Threads of one operator, at least 1. ExecuTorch has one pool for the whole process: the last engine
     *   opened decides for all of them.
     * @throws dev.litenlp.core.LiteNlpException `RUNTIME_MISSING` if this system lacks the runtime or the bundle its graphs,
     *   `RUNTIME_REFUSED` if the runtime does not take them, `OUT_OF_MEMORY`.
     */
    fun open(bundle: InstalledBundle, threads: Int): Engine
}
