package dev.litenlp.core.metrics

import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine

/**
 * Another engine, counting what its graphs execute.
 *
 * The figures are exact for whatever search runs on it: rows are counted as they are fed, padding and all.
 *
 * @param engine Runs the graphs; closed with this one.
 * @param work Of its graphs; null if unknown, and then no Mult-Adds are counted.
 * @param nanoTime A clock.
 */
class MeteredEngine(
    private val engine: Engine,
    private val work: GraphWork?,
    private val nanoTime: () -> Long = System::nanoTime,
) : Engine by engine {
    /** Mult-Adds since the last [reset]. */
    var macs = 0L
        private set

    /** Decoder steps since the last [reset]; a step of several rows is one. */
    var steps = 0L
        private set

    /** When the first step of the latest decoding ended, by the clock. */
    var firstStepEndNs = 0L
        private set

    /** Starts counting at zero. */
    fun reset() {
        macs = 0
        steps = 0
    }

    override fun start(sources: List<IntArray>, capacity: Int): Decoding {
        val decoding = engine.start(sources, capacity)
        val length = sources.maxOf { it.size }
        macs += (work?.encodeMacs(length, capacity) ?: 0) * sources.size
        return MeteredDecoding(decoding, work?.stepMacs(length, capacity) ?: 0)
    }

    private inner class MeteredDecoding(private val decoding: Decoding, private val macsPerRow: Long) : Decoding by decoding {
        private var isFirst = true

        override fun step(tokens: IntArray): FloatArray {
            val logits = decoding.step(tokens)
            if (isFirst) firstStepEndNs = nanoTime()
            isFirst = false
            steps++
            macs += macsPerRow * tokens.size
            return logits
        }
    }
}
