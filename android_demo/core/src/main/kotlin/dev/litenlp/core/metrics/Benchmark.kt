package dev.litenlp.core.metrics

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchListener
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import java.security.MessageDigest
import java.util.Locale

/** Probe of the process's memory. */
fun interface MemoryProbe {
    /** Bytes in physical memory now; 0 if the system does not tell. */
    fun residentBytes(): Long
}

/** Probe of the device's thermal state. */
fun interface ThermalProbe {
    /** The state as the platform names it, `none` where nothing is throttled. */
    fun status(): String
}

/** Watches a benchmark; called on its thread. */
interface BenchmarkListener {
    /** [done] of [total] sentences are translated; the next is [runtime]'s with [threads] threads. */
    fun onProgress(done: Int, total: Int, runtime: String, threads: Int)

    /** Whether to give up: asked before every step of the model. */
    fun isCancelled(): Boolean
}

/**
 * Parameters of a benchmark.
 *
 * @property sources Token ids of the sentences, without special ones; translated one at a time.
 * @property threads Thread counts to sweep.
 * @property options How to search.
 * @property warmup Times that all sentences are translated before it counts.
 * @property repeats Times that they are translated for the figures.
 */
class BenchmarkPlan(
    val sources: List<IntArray>,
    val threads: List<Int>,
    val options: SearchOptions = SearchOptions(),
    val warmup: Int = 1,
    val repeats: Int = 3,
) {
    init {
        require(sources.isNotEmpty()) { "benchmark: expected at least one sentence, found none" }
        require(threads.isNotEmpty() && threads.all { it >= 1 }) { "threads: expected counts of at least 1, found $threads" }
        require(warmup >= 0) { "warmup: expected at least 0, found $warmup" }
        require(repeats >= 1) { "repeats: expected at least 1, found $repeats" }
    }
}

/** A runtime that could not be measured, and why; [threads] is the count at which it failed. */
class BenchmarkFailure(val runtime: String, val threads: Int, val error: LiteNlpException)

/** Results of a benchmark; a runtime that fails has no rows from that thread count on. */
class BenchmarkOutcome(val rows: List<BenchmarkRow>, val failures: List<BenchmarkFailure>)

/**
 * Measures a bundle in several runtimes, with several thread counts, on the calling thread.
 *
 * At most one engine is open at a time: ExecuTorch's threads belong to the process, and memory is to be told apart. No other
 * engine of the process may run meanwhile.
 *
 * @param memory Asked before an engine is opened, after it, and during the sentences.
 * @param thermal Asked before and after each row; null where nobody knows.
 * @param nanoTime A clock.
 */
class Benchmark(
    private val bundle: InstalledBundle,
    private val plan: BenchmarkPlan,
    private val memory: MemoryProbe,
    private val thermal: ThermalProbe? = null,
    private val nanoTime: () -> Long = System::nanoTime,
) {
    /**
     * Runs the plan in each of [factories], one after the other.
     *
     * The first engine that a runtime opens here is taken for a cold start, and is, if the process has not used it before.
     *
     * @throws LiteNlpException `CANCELLED`. What else fails is in the outcome.
     */
    fun run(factories: List<EngineFactory>, listener: BenchmarkListener? = null): BenchmarkOutcome {
        val progress = Progress(listener, factories.size * plan.threads.size * sentencesPerRow)
        val rows = ArrayList<BenchmarkRow>()
        val failures = ArrayList<BenchmarkFailure>()
        for ((index, factory) in factories.withIndex()) {
            var earlier: BenchmarkRow? = null
            for ((place, threads) in plan.threads.withIndex()) {
                progress.begin((index * plan.threads.size + place) * sentencesPerRow, factory.runtime, threads)
                try {
                    rows += measure(factory, threads, earlier, progress).also { earlier = it }
                } catch (error: LiteNlpException) {
                    if (error.problem == Problem.CANCELLED) throw error
                    failures += BenchmarkFailure(factory.runtime, threads, error)
                    break
                } catch (error: OutOfMemoryError) {
                    val cause = LiteNlpException(Problem.OUT_OF_MEMORY, "${factory.runtime}: ${error.message}", error)
                    failures += BenchmarkFailure(factory.runtime, threads, cause)
                    break
                }
            }
        }
        return BenchmarkOutcome(rows, failures)
    }

    private val sentencesPerRow = plan.sources.size * (plan.warmup + plan.repeats)

    /** @param earlier another row of this runtime: what the process keeps from the first on belongs to all */
    private fun measure(factory: EngineFactory, threads: Int, earlier: BenchmarkRow?, progress: Progress): BenchmarkRow {
        val thermalBefore = thermal?.status()
        val gauge = MemoryGauge(memory, earlier?.memory?.before ?: memory.residentBytes())
        var loadColdMs = 0.0
        open(factory, threads) { loadColdMs = it }.close()
        var loadWarmMs = 0.0
        open(factory, threads) { loadWarmMs = it }.use { engine ->
            gauge.loaded()
            val metered = MeteredEngine(engine, GraphWork.of(bundle.manifest, factory.runtime), nanoTime)
            // Memory is looked at after every step where times do not count, else between sentences.
            repeat(plan.warmup) { translateAll(metered, progress, gauge, afterStep = gauge::sample) }
            val times = Times()
            var tokens = emptyList<IntArray>()
            repeat(plan.repeats) { round ->
                metered.reset()
                val produced = translateAll(metered, progress, gauge, times)
                if (round > 0) expectSame(factory.runtime, tokens, produced)
                tokens = produced
            }
            return BenchmarkRow(
                runtime = engine.runtime,
                version = engine.version,
                threads = threads,
                precision = bundle.manifest.precision,
                loadColdMs = earlier?.loadColdMs ?: loadColdMs,
                loadWarmMs = loadWarmMs,
                firstTokenMs = Summary.of(times.firstToken.toDoubleArray()),
                sentenceMs = Summary.of(times.sentence.toDoubleArray()),
                tokensPerSecond = perSecond(tokens.sumOf { it.size.toLong() } * plan.repeats, times.sentence.sum()),
                macs = metered.macs,
                gmacsPerSecond = BudgetCard.gmacsPerSecond(metered.macs * plan.repeats, times.sentence.sum()),
                memory = gauge.figures(),
                thermal = thermalBefore?.let { ThermalStates(it, thermal.status()) },
                tokensSha256 = tokensSha256(tokens),
                targetTokens = tokens.sumOf { it.size },
            )
        }
    }

    private inline fun open(factory: EngineFactory, threads: Int, tell: (Double) -> Unit): Engine {
        val start = nanoTime()
        return factory.open(bundle, threads).also { tell(millisecondsSince(start)) }
    }

    /** Translates all sentences, one by one; [afterStep] is called after each step of the model. */
    private fun translateAll(
        engine: MeteredEngine,
        progress: Progress,
        gauge: MemoryGauge,
        times: Times? = null,
        afterStep: () -> Unit = {},
    ): List<IntArray> {
        val listener = object : SearchListener {
            override fun onStep(best: IntArray) = afterStep()

            override fun isCancelled(): Boolean = progress.isCancelled()
        }
        return plan.sources.map { source ->
            val start = nanoTime()
            val tokens = search(engine, listOf(source), plan.options, listener)[0].tokens
            times?.add((engine.firstStepEndNs - start) / 1e6, millisecondsSince(start))
            gauge.sample()
            progress.advance()
            tokens
        }
    }

    private fun millisecondsSince(start: Long): Double = (nanoTime() - start) / 1e6

    private fun perSecond(count: Long, milliseconds: Double): Double = if (milliseconds > 0) count * 1e3 / milliseconds else 0.0

    private fun expectSame(runtime: String, first: List<IntArray>, other: List<IntArray>) {
        val place = first.indices.find { !first[it].contentEquals(other[it]) } ?: return
        throw LiteNlpException(
            Problem.RUNTIME_FAILED,
            "$runtime: sentence ${place + 1}: expected the same tokens every time, found ${first[place].toList()} and " +
                "${other[place].toList()}",
        )
    }

    private class Times {
        val firstToken = ArrayList<Double>()
        val sentence = ArrayList<Double>()

        fun add(firstTokenMs: Double, sentenceMs: Double) {
            firstToken += firstTokenMs
            sentence += sentenceMs
        }
    }

    private class Progress(private val listener: BenchmarkListener?, private val total: Int) {
        private var done = 0
        private var runtime = ""
        private var threads = 0

        fun begin(done: Int, runtime: String, threads: Int) {
            if (isCancelled()) throw LiteNlpException(Problem.CANCELLED, "benchmark: cancelled")
            this.done = done
            this.runtime = runtime
            this.threads = threads
            tell()
        }

        fun advance() {
            done++
            tell()
        }

        fun isCancelled(): Boolean = listener?.isCancelled() ?: false

        private fun tell() {
            listener?.onProgress(done, total, runtime, threads)
        }
    }

    private class MemoryGauge(private val probe: MemoryProbe, private val before: Long) {
        private var loaded = before
        private var peak = before

        fun loaded() {
            sample()
            loaded = peak
        }

        fun sample() {
            peak = maxOf(peak, probe.residentBytes())
        }

        fun figures() = MemoryBytes(before, loaded, peak)
    }
}

/**
 * A hash of produced tokens that is equal where two runtimes or devices produced the same.
 *
 * SHA-256, in lower-case hexadecimal, of the ids as decimal text joined by spaces, with a line end after each sentence.
 */
fun tokensSha256(sentences: List<IntArray>): String {
    val digest = MessageDigest.getInstance("SHA-256")
    for (tokens in sentences) digest.update((tokens.joinToString(" ") + "\n").toByteArray(Charsets.US_ASCII))
    return digest.digest().joinToString("") { "%02x".format(Locale.ROOT, it) }
}
