package dev.litenlp.app.inference

import dev.litenlp.app.Changes
import dev.litenlp.app.Services
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.models.Model
import dev.litenlp.app.problem
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.search.Translation
import dev.litenlp.core.search.TranslationListener
import java.util.concurrent.atomic.AtomicReference

/** Result of a [TranslationJob]. */
sealed class Outcome {
    /**
     * @property runtime that made it
     * @property version of the runtime
     * @property fallback why the runtime that should have made it did not; null if it did
     */
    class Done(
        val translation: Translation,
        val runtime: String,
        val version: String,
        val threads: Int,
        val fallback: Failure?,
    ) : Outcome()

    /** @property failures per runtime, where runtimes failed; empty for a problem of another kind */
    class Failed(val problem: Problem, val failures: List<Failure>) : Outcome()

    /** @property problem why none could be installed; null if there was nothing to install */
    class NoModel(val problem: Problem?) : Outcome()

    /** Stopped by a person; what was there by then stays in [TranslationJob.partial]. */
    object Cancelled : Outcome()
}

/** A runtime that could not be used. */
class Failure(val runtime: String, val problem: Problem)

/**
 * The translation of one text, from waiting for the model to its end. Independent of screens, which come and go.
 *
 * If the chosen runtime fails, the next one takes over from the start of the text. All members are for the main thread.
 *
 * @param keepsAtEnd whether the history gets the translation as soon as it is done, or when [keep] is called
 */
class TranslationJob(private val services: Services, val text: String, private val keepsAtEnd: Boolean = true) {
    enum class Stage { WAITING, LOADING, TRANSLATING, FINISHED }

    /** Announces a new [stage], more of [partial], the [outcome]. */
    val changes = Changes()

    var stage = Stage.WAITING
        private set

    /** The model that translates, null while it is waited for. */
    var model: Model? = null
        private set

    /** The translation so far. */
    var partial = ""
        private set

    /** Set once [stage] is FINISHED. */
    var outcome: Outcome? = null
        private set

    /** Whether it began because a person paused, and may be followed by another one at any time. */
    val isTyped: Boolean get() = !keepsAtEnd

    private var isKept = false

    @Volatile
    private var isCancelled = false
    private val latest = AtomicReference<String?>()
    @Volatile
    private var pauseMs = SHORTEST_PAUSE_MS
    private val onModels: () -> Unit = { begin() }

    /** Begins as soon as there is a model: at the first start it is still being installed. */
    fun start() {
        services.measurements.stop()
        services.models.changes.observe(onModels)
        begin()
    }

    /** Asks for an early end; [Outcome.Cancelled] follows within a step of the model. */
    fun cancel() {
        isCancelled = true
        if (stage == Stage.WAITING) finish(Outcome.Cancelled)
    }

    private fun begin() {
        if (stage != Stage.WAITING) return
        val selected = services.models.selected
        if (selected == null) {
            if (!services.models.isPreparing) finish(Outcome.NoModel(services.models.failure?.problem))
            return
        }
        services.models.changes.ignore(onModels)
        stage = Stage.LOADING
        model = selected
        val preferences = services.preferences
        val settings = Settings(selected, preferences.runtime, preferences.threads, preferences.beamSize)
        services.inference.run {
            val outcome = run(settings)
            services.main.post { finish(outcome) }
        }
        changes.announce()
    }

    private class Settings(val model: Model, val runtime: String?, val threads: Int, val beamSize: Int)

    /** On the inference thread: the runtimes in turn, until one translates the text. */
    private fun run(settings: Settings): Outcome {
        val bundle = settings.model.bundle
        val known = services.engines.failures(bundle)
        val failures = ArrayList<Failure>()
        for (runtime in services.engines.runtimesOf(bundle, settings.runtime)) {
            // One that failed before is not tried again for every text, unless a person asks for that.
            val before = known[runtime]
            if (before != null) {
                failures += Failure(runtime, before.problem)
                continue
            }
            try {
                return translate(settings, runtime, failures.firstOrNull())
            } catch (error: LiteNlpException) {
                if (error.problem == Problem.CANCELLED) return Outcome.Cancelled
                if (error.problem !in RUNTIME_PROBLEMS) {
                    services.log.failure("translation", error)
                    return Outcome.Failed(error.problem, emptyList())
                }
                failures += Failure(runtime, services.engines.remember(bundle, runtime, error).problem)
            } catch (error: Exception) {
                failures += Failure(runtime, services.engines.remember(bundle, runtime, error).problem)
            } catch (error: LinkageError) {
                failures += Failure(runtime, services.engines.remember(bundle, runtime, error).problem)
            } catch (error: OutOfMemoryError) {
                failures += Failure(runtime, services.engines.remember(bundle, runtime, error).problem)
            }
        }
        return Outcome.Failed(failures.lastOrNull()?.problem ?: Problem.RUNTIME_MISSING, failures)
    }

    private fun translate(settings: Settings, runtime: String, fallback: Failure?): Outcome {
        if (isCancelled) return Outcome.Cancelled
        val bundle = settings.model.bundle
        return services.engines.use(bundle, runtime, settings.threads) { engine ->
            services.main.post {
                if (stage == Stage.LOADING) {
                    stage = Stage.TRANSLATING
                    changes.announce()
                }
            }
            val translation = services.engines.translator(bundle, engine, settings.beamSize).translate(text, Listener())
            Outcome.Done(translation, runtime, engine.version, settings.threads, fallback)
        }
    }

    private fun finish(end: Outcome) {
        if (stage == Stage.FINISHED) return
        services.models.changes.ignore(onModels)
        latest.set(null)
        stage = Stage.FINISHED
        outcome = end
        if (end is Outcome.Done) {
            partial = end.translation.text
            if (keepsAtEnd) keep()
        }
        changes.announce()
    }

    /** Puts the translation into the history, once, if it is done and the history is on. */
    fun keep() {
        val done = outcome as? Outcome.Done ?: return
        if (isKept || !services.preferences.keepsHistory || text.isBlank()) return
        isKept = true
        services.history.add(
            KeptTranslation(
                time = System.currentTimeMillis(),
                source = text,
                target = done.translation.text,
                languages = model?.languages,
                runtime = done.runtime,
                totalMs = done.translation.totalMs,
            ),
        )
    }

    /** Hands over the newest text only, and no faster than screens draw it: a long one takes longer. */
    private inner class Listener : TranslationListener {
        override fun onText(text: String) {
            if (latest.getAndSet(text) == null) services.main.postDelayed(::deliver, pauseMs)
        }

        override fun isCancelled(): Boolean = this@TranslationJob.isCancelled
    }

    private fun deliver() {
        val text = latest.getAndSet(null) ?: return
        if (stage == Stage.FINISHED) return
        partial = text
        val began = System.nanoTime()
        changes.announce()
        pauseMs = maxOf(SHORTEST_PAUSE_MS, DRAWING_SHARE * (System.nanoTime() - began) / 1_000_000)
    }

    private companion object {
        const val SHORTEST_PAUSE_MS = 40L

        /** A quarter of the main thread's time at most goes into showing what is not finished yet. */
        const val DRAWING_SHARE = 3L

        val RUNTIME_PROBLEMS =
            setOf(Problem.RUNTIME_MISSING, Problem.RUNTIME_REFUSED, Problem.RUNTIME_FAILED, Problem.OUT_OF_MEMORY)
    }
}
