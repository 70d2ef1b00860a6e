package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.StateTensor
import java.util.Collections
import java.util.IdentityHashMap

/**
 * Base class of engines: checks the bounds, and closes the decodings with the engine.
 *
 * @property manifest Of the bundle.
 */
abstract class BundleEngine(protected val manifest: Manifest) : Engine {
    private val decodings: MutableSet<StartedDecoding> = Collections.newSetFromMap(IdentityHashMap())
    private var isClosed = false

    final override val maxSourceTokens: Int get() = manifest.bounds.source
    final override val maxSteps: Int get() = manifest.bounds.capacity
    final override val vocabSize: Int get() = manifest.vocabulary.tgtSize

    final override fun start(sources: List<IntArray>, capacity: Int): Decoding = begin(sources, capacity, ::encode)

    /** Checks the arguments of [start] or [startBeams], and closes what [make] makes of them with the engine. */
    protected fun <D : StartedDecoding> begin(sources: List<IntArray>, capacity: Int, make: (SourceBatch, Int) -> D): D {
        check(!isClosed) { "engine: closed" }
        val decoding = make(SourceBatch.of(manifest, sources, capacity), capacity)
        decodings += decoding
        decoding.onClose = { decodings -= decoding }
        return decoding
    }

    /**
     * Translates two tokens, the last ones of the vocabularies and two steps long. What graphs say of themselves differs between
     * runtimes; a state tensor that is not theirs, or a smaller vocabulary, shows here and not in the middle of a translation.
     *
     * @throws LiteNlpException `RUNTIME_REFUSED` if the graphs are not what the manifest says, `OUT_OF_MEMORY`.
     */
    fun tryOut() {
        try {
            translate(intArrayOf(manifest.vocabulary.srcSize - 1), vocabSize - 1, minOf(2, maxSteps))
        } catch (error: LiteNlpException) {
            if (error.problem == Problem.OUT_OF_MEMORY) throw error
            throw LiteNlpException(Problem.RUNTIME_REFUSED, "the graphs do not do what the manifest says: ${error.message}", error)
        }
    }

    /** Translates [source] in [steps] steps with the graphs that searches use, [token] being the first that is fed. */
    protected open fun translate(source: IntArray, token: Int, steps: Int) = start(listOf(source), steps).use { decoding ->
        repeat(steps) { decoding.step(intArrayOf(token)) }
    }

    /** Encodes sources and makes the first state of a decoding of [capacity] steps. */
    protected abstract fun encode(batch: SourceBatch, capacity: Int): BundleDecoding

    /** Closes what the runtime has loaded; called once. */
    protected abstract fun unload()

    final override fun close() {
        if (isClosed) return
        isClosed = true
        decodings.toList().forEach { it.close() }
        unload()
    }
}

/** Base class of what an engine starts: closed once, with the engine at the latest. */
abstract class StartedDecoding : AutoCloseable {
    private var isClosed = false

    /** Set by the engine, which need not keep what is closed. */
    internal var onClose: () -> Unit = {}

    /** @throws IllegalStateException After [close]. */
    protected fun checkOpen() = check(!isClosed) { "decoding: closed" }

    final override fun close() {
        if (isClosed) return
        isClosed = true
        onClose()
        release()
    }

    /** Gives the state back to the runtime; called once. */
    protected abstract fun release()
}

/**
 * Base class of decodings: tracks rows and steps, and chooses the tensors that a reordering moves.
 *
 * @property manifest Of the bundle.
 * @param rows Sentences.
 * @param capacity Steps in all.
 */
abstract class BundleDecoding(protected val manifest: Manifest, rows: Int, capacity: Int) : StartedDecoding(), Decoding {
    private val table = RowTable(rows, capacity)

    final override val rows: Int
        get() {
            checkOpen()
            return table.count
        }

    final override fun step(tokens: IntArray): FloatArray {
        checkOpen()
        table.beginStep(tokens, manifest.vocabulary.tgtSize)
        return feed(tokens)
    }

    final override fun reorder(rows: IntArray) {
        checkOpen()
        when (table.classify(rows)) {
            Reordering.NOTHING -> return
            Reordering.WITHIN_SENTENCES -> move(manifest.state.filter { it.changes }, rows)
            Reordering.EVERYTHING -> move(manifest.state, rows)
        }
        table.commit(rows)
    }

    /** [Decoding.step] with one valid token for every row. */
    protected abstract fun feed(tokens: IntArray): FloatArray

    /** Makes row `i` of these tensors what row `rows[i]` was, of all of them or, if that fails, of none. */
    protected abstract fun move(tensors: List<StateTensor>, rows: IntArray)
}
