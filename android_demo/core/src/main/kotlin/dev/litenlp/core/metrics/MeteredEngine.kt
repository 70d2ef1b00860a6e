package dev.litenlp.core.metrics

import dev.litenlp.core.engine.BeamCall
import dev.litenlp.core.engine.BeamDecoding
import dev.litenlp.core.engine.BeamSteps
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

    /** When the first step of the latest decoding ended, by the clock; of a search by the engine itself, the first call. */
    var firstStepEndNs = 0L
        private set

    /** Starts counting at zero. */
    fun reset() {
        macs = 0
        steps = 0
    }

    override fun start(sources: List<IntArray>, capacity: Int): Decoding {
        val decoding = engine.start(sources, capacity)
        countEncoding(sources, capacity)
        return MeteredDecoding(decoding, work?.stepMacs(longest(sources), capacity) ?: 0)
    }

    override fun startBeams(sources: List<IntArray>, capacity: Int): BeamDecoding? {
        val decoding = engine.startBeams(sources, capacity) ?: return null
        countEncoding(sources, capacity)
        return MeteredBeams(decoding, longest(sources))
    }

    private fun countEncoding(sources: List<IntArray>, capacity: Int) {
        macs += (work?.encodeMacs(longest(sources), capacity) ?: 0) * sources.size
    }

    private fun longest(sources: List<IntArray>): Int = sources.maxOf { it.size }

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

    /** Steps attend to the tokens so far: the Mult-Adds of each are those at so many slots, of dead hypotheses too. */
    private inner class MeteredBeams(private val decoding: BeamDecoding, private val length: Int) : BeamDecoding by decoding {
        override fun search(call: BeamCall): BeamSteps {
            val made = decoding.search(call)
            if (call.step == 0) firstStepEndNs = nanoTime()
            steps += made.steps
            for (slots in call.step + 1..call.step + made.steps) macs += (work?.stepMacs(length, slots) ?: 0) * call.tokens.size
            return made
        }
    }
}
