package dev.litenlp.app.measure

import dev.litenlp.app.Services
import dev.litenlp.app.inference.Failure
import dev.litenlp.app.models.Model
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.search.Translation
import dev.litenlp.core.search.TranslationListener

/** Output or failure of one runtime. */
sealed class Side {
    abstract val runtime: String

    /** @property loadMs from the call that opens the engine to its return */
    class Made(override val runtime: String, val version: String, val loadMs: Double, val translation: Translation) : Side() {
        /** Tokens produced per second of the whole translation; 0 if there was nothing to translate. */
        val tokensPerSecond: Double
            get() = if (translation.totalMs > 0) translation.targetTokens * 1e3 / translation.totalMs else 0.0
    }

    class Missing(override val runtime: String, val problem: Problem) : Side()
}

/**
 * Both runtimes on one text.
 *
 * @property sides in the order of the build's runtimes
 * @property difference where the first two translations part; null if their tokens are the same or there are not two
 */
class Comparison(val text: String, val threads: Int, val beamSize: Int, val sides: List<Side>, val difference: Difference?) {
    /** The runtimes' outputs without the failures. */
    val made: List<Side.Made> get() = sides.filterIsInstance<Side.Made>()
}

/**
 * The first token in which two outputs differ.
 *
 * @property piece of the text, from 1
 * @property token of the piece, from 1
 * @property common the text of the piece before it, which is the same in both
 * @property ids of the token in either output; null where that has ended
 */
data class Difference(val piece: Int, val token: Int, val common: String, val ids: Pair<Int?, Int?>) {
    companion object {
        /**
         * Compares two outputs of the same pieces; null if they are equal.
         *
         * @param decode text of tokens
         */
        fun between(first: List<IntArray>, second: List<IntArray>, decode: (IntArray) -> String): Difference? {
            require(first.size == second.size) { "expected as many pieces, found ${first.size} and ${second.size}" }
            for ((index, pair) in first.zip(second).withIndex()) {
                val (one, other) = pair
                if (one.contentEquals(other)) continue
                val place = one.indices.find { it >= other.size || one[it] != other[it] } ?: one.size
                val ids = one.getOrNull(place) to other.getOrNull(place)
                return Difference(index + 1, place + 1, decode(one.copyOf(place)), ids)
            }
            return null
        }
    }
}

/**
 * Translates one text in all runtimes, one after the other, and compares what they make.
 *
 * Each runtime loads the model anew and first translates the beginning of the text without a clock, so that the second one
 * has no advantage of code that the first one has warmed up.
 */
class CompareJob(services: Services, val text: String) : ModelJob<Comparison>(services) {
    private val threads = services.preferences.threads
    private val beamSize = services.preferences.beamSize

    /** The runtime at work, null before the first. */
    var running: String? = null
        private set

    override fun work(model: Model): Ending<Comparison> {
        val sides = services.engines.runtimes.map { runtime ->
            update { running = runtime }
            translate(model.bundle, runtime)
        }
        val made = sides.filterIsInstance<Side.Made>()
        if (made.isEmpty()) {
            val failures = sides.filterIsInstance<Side.Missing>().map { Failure(it.runtime, it.problem) }
            return Ending.Failed(failures.lastOrNull()?.problem ?: Problem.RUNTIME_MISSING, failures)
        }
        val difference = if (made.size < 2) null else difference(model.bundle, made[0], made[1])
        return Ending.Done(Comparison(text, threads, beamSize, sides, difference))
    }

    private fun difference(bundle: InstalledBundle, first: Side.Made, second: Side.Made): Difference? {
        val decode = services.engines.tokenizer(bundle)::decode
        val found = Difference.between(first.translation.tokens, second.translation.tokens, decode) ?: return null
        services.log.info(
            "comparison: ${first.runtime} ${first.version} and ${second.runtime} ${second.version} differ in piece " +
                "${found.piece} at token ${found.token}: ${found.ids.first} and ${found.ids.second}",
        )
        return found
    }

    private fun translate(bundle: InstalledBundle, runtime: String): Side {
        stopIfCancelled()
        if (runtime !in services.engines.runtimesOf(bundle)) return Side.Missing(runtime, Problem.RUNTIME_MISSING)
        return try {
            services.engines.unloadAll("comparison")
            val began = System.nanoTime()
            services.engines.use(bundle, runtime, threads) { engine ->
                val loadMs = (System.nanoTime() - began) / 1e6
                val translator = services.engines.translator(bundle, engine, beamSize)
                translator.translate(beginning(), listener)
                Side.Made(runtime, engine.version, loadMs, translator.translate(text, listener))
            }
        } catch (error: LiteNlpException) {
            // Not the runtime's fault: the text's, or the person has had enough.
            if (error.problem !in RUNTIME_PROBLEMS) throw error
            Side.Missing(runtime, services.engines.remember(bundle, runtime, error).problem)
        } catch (error: RuntimeException) {
            Side.Missing(runtime, services.engines.remember(bundle, runtime, error).problem)
        } catch (error: LinkageError) {
            Side.Missing(runtime, services.engines.remember(bundle, runtime, error).problem)
        } catch (error: OutOfMemoryError) {
            Side.Missing(runtime, services.engines.remember(bundle, runtime, error).problem)
        }
    }

    /** A first line of a sentence's length, without half a character at its end. */
    private fun beginning(): String {
        val line = text.lineSequence().firstOrNull { it.isNotBlank() }.orEmpty().take(WARM_UP_CHARS)
        return if (line.lastOrNull()?.isHighSurrogate() == true) line.dropLast(1) else line
    }

    private fun stopIfCancelled() {
        if (isCancelled) throw LiteNlpException(Problem.CANCELLED, "comparison: cancelled")
    }

    private val listener = object : TranslationListener {
        override fun onText(text: String) = Unit
        override fun isCancelled(): Boolean = this@CompareJob.isCancelled
    }

    private companion object {
        const val WARM_UP_CHARS = 100
        val RUNTIME_PROBLEMS =
            setOf(Problem.RUNTIME_MISSING, Problem.RUNTIME_REFUSED, Problem.RUNTIME_FAILED, Problem.OUT_OF_MEMORY)
    }
}
