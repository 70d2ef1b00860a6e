package dev.litenlp.app

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SpecialTokens
import dev.litenlp.core.tokenizer.Tokenizer
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.Semaphore
import java.util.concurrent.atomic.AtomicInteger

/**
 * Opens engines that know a few translations by heart and repeat every other text.
 *
 * @param known translations of whole lines
 */
class FakeEngineFactory(override val runtime: String, private val known: Map<String, String> = emptyMap()) : EngineFactory {
    /** Thrown by [open], if set. */
    @Volatile
    var openFailure: Throwable? = null

    /** Thrown by every step, if set. */
    @Volatile
    var stepFailure: LiteNlpException? = null

    /** If set, every step takes one permit of it: a test decides how far a translation comes. */
    @Volatile
    var permits: Semaphore? = null

    val openEngines = AtomicInteger()
    val opened = AtomicInteger()

    /** Threads asked for by each [open]. */
    val threads = CopyOnWriteArrayList<Int>()

    /** Names of the threads that steps ran on. */
    val stepThreads = CopyOnWriteArrayList<String>()

    override fun open(bundle: InstalledBundle, threads: Int): Engine {
        openFailure?.let { throw it }
        this.threads += threads
        opened.incrementAndGet()
        openEngines.incrementAndGet()
        val tokenizer = bundle.tokenizer()
        val answers = known.entries.associate { (text, translation) ->
            tokenizer.encode(text).toList() to tokenizer.encode(translation)
        }
        return FakeEngine(tokenizer, answers)
    }

    private inner class FakeEngine(tokenizer: Tokenizer, private val answers: Map<List<Int>, IntArray>) : Engine {
        private var isClosed = false
        override val runtime get() = this@FakeEngineFactory.runtime
        override val version = "1.0"
        override val maxSourceTokens = 256
        override val maxSteps = 512
        override val vocabSize = tokenizer.vocabSize

        override fun start(sources: List<IntArray>, capacity: Int): Decoding {
            check(!isClosed) { "expected an open engine" }
            return FakeDecoding(sources.map { row -> answers[row.dropLast(1)] ?: row.copyOf(row.size - 1) })
        }

        override fun close() {
            if (!isClosed) openEngines.decrementAndGet()
            isClosed = true
        }

        private inner class FakeDecoding(private var targets: List<IntArray>) : Decoding {
            private var done = 0
            private var logits = FloatArray(0)
            override val rows: Int get() = targets.size

            override fun step(tokens: IntArray): FloatArray {
                check(!isClosed) { "expected an open engine" }
                stepThreads.addIfAbsent(Thread.currentThread().name)
                permits?.acquire()
                stepFailure?.let { throw it }
                if (logits.size != rows * vocabSize) logits = FloatArray(rows * vocabSize)
                logits.fill(0f)
                for ((row, target) in targets.withIndex()) {
                    // Else it would rank with all that are wrong, and a beam fills with ends that come too early.
                    logits[row * vocabSize + SpecialTokens.EOS] = -CERTAIN
                    logits[row * vocabSize + (target.getOrNull(done) ?: SpecialTokens.EOS)] = CERTAIN
                }
                done++
                return logits
            }

            override fun reorder(rows: IntArray) {
                targets = rows.map { targets[it] }
            }

            override fun close() = Unit
        }
    }

    companion object {
        private const val CERTAIN = 30f

        /** The exception of a runtime that this system lacks. */
        fun missing(runtime: String) = LiteNlpException(Problem.RUNTIME_MISSING, "expected the library of $runtime, found none")
    }
}
