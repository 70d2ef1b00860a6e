package dev.litenlp.core.search

import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine

/**
 * An engine whose logits are a function of the source and of the tokens produced so far, so that a test knows every one.
 *
 * It keeps the contract of engines strictly: wrong calls throw, and the logits of a step are overwritten by the next call.
 *
 * @param model Logits after the tokens `produced` (without the begin mark) for a source (without the end mark).
 */
class ModelEngine(
    override val vocabSize: Int,
    override val maxSteps: Int = 512,
    override val maxSourceTokens: Int = 256,
    private val model: (source: IntArray, produced: IntArray) -> FloatArray,
) : Engine {
    override val runtime = "model"
    override val version = "1"

    /** Sources of the last start, end marks included. */
    var sources: List<IntArray> = emptyList()
        private set

    /** Capacity of the last start. */
    var capacity = 0
        private set

    /** Steps of the last decoding. */
    var steps = 0
        private set

    /** Rows fed to all steps of the last decoding together. */
    var fedRows = 0
        private set

    /** Tokens fed to the first step of the last decoding. */
    var firstTokens = IntArray(0)
        private set

    /** Decodings that are not closed. */
    var open = 0
        private set

    override fun start(sources: List<IntArray>, capacity: Int): Decoding {
        require(sources.isNotEmpty() && capacity in 1..maxSteps)
        this.sources = sources
        this.capacity = capacity
        steps = 0
        fedRows = 0
        open++
        return ModelDecoding(sources.map { it.copyOf(it.size - 1) })
    }

    override fun close() = Unit

    private inner class ModelDecoding(private var origins: List<IntArray>) : Decoding {
        private var fed = origins.map { IntArray(0) }
        private var logits = FloatArray(0)
        private var closed = false

        override val rows: Int
            get() = origins.size

        override fun step(tokens: IntArray): FloatArray {
            check(!closed && tokens.size == rows && steps < capacity) { "step: ${tokens.size} tokens for $rows rows" }
            if (steps == 0) firstTokens = tokens.copyOf()
            steps++
            fedRows += rows
            fed = fed.mapIndexed { row, before -> before + tokens[row] }
            logits.fill(Float.NaN)
            logits = FloatArray(rows * vocabSize)
            for (row in 0 until rows) {
                val values = model(origins[row], fed[row].copyOfRange(1, fed[row].size))
                require(values.size == vocabSize)
                values.copyInto(logits, row * vocabSize)
            }
            return logits
        }

        override fun reorder(rows: IntArray) {
            check(!closed && rows.isNotEmpty())
            logits.fill(Float.NaN)
            fed = rows.map { fed[it] }
            origins = rows.map { origins[it] }
        }

        override fun close() {
            if (!closed) open--
            closed = true
        }
    }

    companion object {
        /** The same logits at every step. */
        fun fixed(vararg logits: Float) = ModelEngine(logits.size) { _, _ -> logits }

        /** Logits that look random and are the same for the same source and tokens; ends become likely as [endSlope] grows. */
        fun random(vocabSize: Int, seed: Int, endSlope: Float = 0.3f) = ModelEngine(vocabSize) { source, produced ->
            val generator = java.util.Random(seed * 1_000_003L + source.contentHashCode() * 31L + produced.contentHashCode())
            val logits = FloatArray(vocabSize) { generator.nextGaussian().toFloat() * 2 }
            logits[SpecialTokens.EOS] += endSlope * produced.size - 1
            logits
        }
    }
}
