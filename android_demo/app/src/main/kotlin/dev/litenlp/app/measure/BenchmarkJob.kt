package dev.litenlp.app.measure

import dev.litenlp.app.R
import dev.litenlp.app.Services
import dev.litenlp.app.inference.Failure
import dev.litenlp.app.models.Model
import dev.litenlp.app.platform.DeviceInfo
import dev.litenlp.app.platform.ThermalState
import dev.litenlp.app.problem
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.metrics.Benchmark
import dev.litenlp.core.metrics.BenchmarkListener
import dev.litenlp.core.metrics.BenchmarkModel
import dev.litenlp.core.metrics.BenchmarkPlan
import dev.litenlp.core.metrics.BenchmarkReport
import dev.litenlp.core.metrics.ProcessMemory
import dev.litenlp.core.search.Translator
import java.time.Instant
import java.util.concurrent.atomic.AtomicReference

/** @property failures runtimes that could not be measured, or not with all counts of threads */
class BenchmarkResult(val report: MeasuredReport, val failures: List<Failure>)

/** Progress of a benchmark: [done] of [total] sentences, and the runtime and threads under way. */
data class BenchmarkProgress(val done: Int, val total: Int, val runtime: String, val threads: Int)

/** Measures a model as a [BenchmarkRequest] says; other engines are closed for it. */
class BenchmarkJob(services: Services, val request: BenchmarkRequest) : ModelJob<BenchmarkResult>(services, { pick(it, request) }) {
    /** Null until the first sentence. */
    var progress: BenchmarkProgress? = null
        private set

    private val latest = AtomicReference<BenchmarkProgress?>()

    override fun work(model: Model): Ending<BenchmarkResult> {
        val bundle = model.bundle
        services.engines.unloadAll("benchmark")
        val options = Translator.optionsOf(bundle.manifest, request.beamSize)
        val plan = BenchmarkPlan(sources(bundle), request.threads, options, request.warmup, request.repeats)
        val names = services.engines.runtimesOf(bundle).filter { request.runtimes == null || it in request.runtimes }
        val thermal = ThermalState.probe(services.context)
        val benchmark = Benchmark(bundle, plan, ProcessMemory, thermal)
        val outcome = benchmark.run(services.factories.filter { it.runtime in names }.map(::Tame), Listener())
        for (failure in outcome.failures) services.log.failure("${failure.runtime}, ${failure.threads} threads", failure.error)
        val absent = request.runtimes.orEmpty().filter { it !in names }.map { Failure(it, Problem.RUNTIME_MISSING) }
        val failures = absent + outcome.failures.map { Failure(it.runtime, it.error.problem) }
        if (outcome.rows.isEmpty()) return Ending.Failed(failures.lastOrNull()?.problem ?: Problem.RUNTIME_MISSING, failures)
        val report = BenchmarkReport(
            toolVersion = Services.versionName(services.context),
            created = Instant.now(),
            device = DeviceInfo.describe(services.context),
            model = BenchmarkModel.of(bundle),
            plan = plan,
            rows = outcome.rows,
        )
        services.log.info("benchmark: ${outcome.rows.size} rows")
        return Ending.Done(BenchmarkResult(MeasuredReport(report.toJson()), failures))
    }

    /** Token ids of the sentences, cut to what the bundle takes at once, as `lite-nlp bench` does it. */
    private fun sources(bundle: InstalledBundle): List<IntArray> {
        val tokenizer = bundle.tokenizer()
        val longest = bundle.manifest.bounds.source - 1
        return sentences(services).take(request.sentences).map { sentence ->
            val tokens = tokenizer.encode(sentence)
            tokens.copyOf(minOf(tokens.size, longest))
        }
    }

    private inner class Listener : BenchmarkListener {
        override fun onProgress(done: Int, total: Int, runtime: String, threads: Int) {
            // One message under way at most: sentences may take less time than it takes to draw.
            val isFirst = latest.getAndSet(BenchmarkProgress(done, total, runtime, threads)) == null
            if (isFirst) update { progress = latest.getAndSet(null) }
        }

        override fun isCancelled(): Boolean = this@BenchmarkJob.isCancelled
    }

    /** A factory of which every failure is one of its runtime, so that the other one is measured nevertheless. */
    private class Tame(private val factory: EngineFactory) : EngineFactory by factory {
        override fun open(bundle: InstalledBundle, threads: Int): Engine = try {
            factory.open(bundle, threads)
        } catch (error: RuntimeException) {
            throw asProblem(error)
        } catch (error: LinkageError) {
            throw asProblem(error)
        }

        private fun asProblem(error: Throwable) =
            LiteNlpException(error.problem(), "$runtime: ${error.javaClass.simpleName}: ${error.message}", error)
    }

    companion object {
        private fun pick(services: Services, request: BenchmarkRequest): Model? =
            if (request.model == null) {
                services.models.selected
            } else {
                services.models.models.find { request.model == it.id || request.model == it.name }
            }

        /** The built-in sentences: the English ones of `lite-nlp bench`, so that its token hashes can be compared. */
        fun sentences(services: Services): List<String> =
            services.context.resources.openRawResource(R.raw.benchmark_sentences).bufferedReader().use { it.readLines() }
    }
}
