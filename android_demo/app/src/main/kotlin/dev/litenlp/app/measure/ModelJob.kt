package dev.litenlp.app.measure

import dev.litenlp.app.Changes
import dev.litenlp.app.Services
import dev.litenlp.app.inference.Failure
import dev.litenlp.app.models.Model
import dev.litenlp.app.problem
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem

/** Result of a [ModelJob]. */
sealed class Ending<out T> {
    class Done<T>(val value: T) : Ending<T>()

    /** @property failures per runtime, where runtimes failed; empty for a problem of another kind */
    class Failed(val problem: Problem, val failures: List<Failure> = emptyList()) : Ending<Nothing>()

    /** @property problem why no model could be installed; null if there was nothing to install */
    class NoModel(val problem: Problem?) : Ending<Nothing>()

    /** Stopped by a person. */
    object Cancelled : Ending<Nothing>()
}

/**
 * Something longer that is done with a model on the inference thread. Independent of screens, which come and go.
 *
 * All members are for the main thread, but [work] and what it may use: [isCancelled] and [update].
 *
 * @param pick chooses the model; null if the chosen one is not there
 */
abstract class ModelJob<T>(protected val services: Services, private val pick: (Services) -> Model? = { it.models.selected }) {
    enum class Stage { WAITING, RUNNING, FINISHED }

    /** Announces a new [stage], the [ending], and what a job makes known on the way. */
    val changes = Changes()

    var stage = Stage.WAITING
        private set

    /** Set once [stage] is FINISHED. */
    var ending: Ending<T>? = null
        private set

    /** Whether an early end is asked for. */
    @Volatile
    protected var isCancelled = false
        private set

    private var isQueued = false
    private val onModels: () -> Unit = ::begin

    /** Begins as soon as there is a model: at the first start it is still being installed. */
    fun start() {
        services.models.changes.observe(onModels)
        begin()
    }

    /** Asks for an early end; [Ending.Cancelled] follows within a step of the model. */
    fun cancel() {
        isCancelled = true
        if (stage == Stage.WAITING) finish(Ending.Cancelled)
    }

    /**
     * On the inference thread.
     *
     * @throws LiteNlpException ends the job; `CANCELLED` as [Ending.Cancelled]
     */
    protected abstract fun work(model: Model): Ending<T>

    /** From the inference thread: changes on the main thread what the job makes known, and announces it. */
    protected fun update(change: () -> Unit) {
        services.main.post {
            if (stage == Stage.FINISHED) return@post
            change()
            changes.announce()
        }
    }

    private fun begin() {
        if (stage != Stage.WAITING || isQueued) return
        val model = pick(services)
        if (model == null) {
            if (!services.models.isPreparing) finish(Ending.NoModel(services.models.failure?.problem))
            return
        }
        services.models.changes.ignore(onModels)
        isQueued = true
        services.inference.run {
            if (isCancelled) return@run
            update { stage = Stage.RUNNING }
            val end = attempt(model)
            services.main.post { finish(end) }
        }
    }

    private fun attempt(model: Model): Ending<T> = try {
        work(model)
    } catch (error: LiteNlpException) {
        failed(error)
    } catch (error: RuntimeException) {
        failed(error)
    } catch (error: LinkageError) {
        failed(error)
    } catch (error: OutOfMemoryError) {
        failed(error)
    }

    private fun failed(error: Throwable): Ending<T> {
        if (error.problem() == Problem.CANCELLED) return Ending.Cancelled
        services.log.failure(javaClass.simpleName, error)
        return Ending.Failed(error.problem())
    }

    private fun finish(end: Ending<T>) {
        if (stage == Stage.FINISHED) return
        services.models.changes.ignore(onModels)
        stage = Stage.FINISHED
        ending = end
        changes.announce()
    }
}
