package dev.litenlp.app.inference

import dev.litenlp.app.EventLog
import dev.litenlp.app.problem
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.RuntimeKind
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.Translator
import dev.litenlp.core.tokenizer.Tokenizer
import java.util.concurrent.ConcurrentHashMap

/**
 * The engines that are loaded, at most one per runtime.
 *
 * [failures] and [forgetFailures] may be called from anywhere, all else only from the inference thread.
 */
class EngineHost(private val factories: List<EngineFactory>, private val firstUses: FirstUses, private val log: EventLog) {
    private class Loaded(val folder: String, val threads: Int, val engine: Engine)

    private val loaded = HashMap<String, Loaded>()
    private var tokenizer: Pair<String, Tokenizer>? = null

    /** By the folder of the model and the runtime. */
    private val failed = ConcurrentHashMap<Pair<String, String>, LiteNlpException>()

    init {
        for ((folder, runtime) in firstUses.unfinished()) {
            val error = LiteNlpException(Problem.RUNTIME_ENDED, "$runtime: the process ended during the first use of $folder")
            log.failure("before this start", error)
            failed[folder to runtime] = error
        }
    }

    /** Names of this build's runtimes, the preferred one first; a system may lack some of them. */
    val runtimes: List<String> = factories.map { it.runtime }

    /** Runtimes that could not be used with a bundle since the start or [forgetFailures], or ended the process before, and why. */
    fun failures(bundle: InstalledBundle): Map<String, LiteNlpException> =
        runtimes.mapNotNull { name -> failed[bundle.directory.name to name]?.let { name to it } }.toMap()

    /** Allows failed runtimes to be tried again. */
    fun forgetFailures() {
        failed.clear()
        firstUses.forget()
    }

    /** Runtimes that a bundle has graphs for, in the order in which they are tried: the [chosen] one, then the preferred one. */
    fun runtimesOf(bundle: InstalledBundle, chosen: String? = null): List<String> =
        runtimes.filter { RuntimeKind.of(it)?.files(bundle.manifest) != null }.sortedByDescending { it == chosen }

    /**
     * Does [work] with the engine of a bundle in one runtime, loaded if it is not.
     *
     * @throws LiteNlpException what the runtime says, `RUNTIME_MISSING` for an unknown runtime; kept in [failures]. And what [work]
     *   throws
     */
    fun <T> use(bundle: InstalledBundle, runtime: String, threads: Int, work: (Engine) -> T): T {
        val folder = bundle.directory.name
        loaded[runtime]?.let { if (it.folder == folder && it.threads == threads) return work(it.engine) }
        return firstUses.during(folder, runtime) { work(open(bundle, runtime, threads)) }
    }

    private fun open(bundle: InstalledBundle, runtime: String, threads: Int): Engine {
        val folder = bundle.directory.name
        unloadRuntime(runtime)
        val factory = factories.find { it.runtime == runtime }
            ?: throw LiteNlpException(Problem.RUNTIME_MISSING, "expected a runtime of $runtimes, found $runtime")
        val began = System.nanoTime()
        val engine = try {
            factory.open(bundle, threads)
        } catch (error: Exception) {
            throw remember(bundle, runtime, error)
        } catch (error: LinkageError) {
            throw remember(bundle, runtime, error)
        } catch (error: OutOfMemoryError) {
            throw remember(bundle, runtime, error)
        }
        log.info("$runtime ${engine.version}: $folder loaded in ${millisSince(began)} ms, $threads threads")
        failed.remove(folder to runtime)
        loaded[runtime] = Loaded(folder, threads, engine)
        return engine
    }

    /**
     * Notes that a runtime failed, while loading or later, and gives back its engine's memory. A lack of memory is not kept in
     * [failures]: it may have passed by the next time.
     */
    fun remember(bundle: InstalledBundle, runtime: String, error: Throwable): LiteNlpException {
        log.failure(runtime, error)
        unloadRuntime(runtime)
        val known = error as? LiteNlpException
            ?: LiteNlpException(error.problem(), "$runtime: ${error.javaClass.simpleName}: ${error.message}", error)
        if (known.problem != Problem.OUT_OF_MEMORY) failed[bundle.directory.name to runtime] = known
        return known
    }

    /** The tokenizer of a bundle; the last one used is kept. */
    fun tokenizer(bundle: InstalledBundle): Tokenizer {
        val folder = bundle.directory.name
        tokenizer?.let { (known, tokenizer) -> if (known == folder) return tokenizer }
        return bundle.tokenizer().also { tokenizer = folder to it }
    }

    /**
     * A translator of a bundle on [engine], which [use] has given; it searches as the model wants it.
     *
     * @throws LiteNlpException if the tokenizer cannot be read
     */
    fun translator(bundle: InstalledBundle, engine: Engine, beamSize: Int): Translator =
        Translator.of(bundle, engine, beamSize, tokenizer(bundle))

    /** Closes the engines of one model, by its folder's name, and forgets its [failures]: its files have gone or come anew. */
    fun unload(folder: String) {
        for (runtime in loaded.filterValues { it.folder == folder }.keys.toList()) unloadRuntime(runtime)
        if (tokenizer?.first == folder) tokenizer = null
        failed.keys.removeAll { it.first == folder }
        firstUses.forget(folder)
    }

    /** Closes all engines. */
    fun unloadAll(why: String) {
        if (loaded.isEmpty() && tokenizer == null) return
        for (runtime in loaded.keys.toList()) unloadRuntime(runtime)
        tokenizer = null
        log.info("engines unloaded: $why")
    }

    private fun unloadRuntime(runtime: String) {
        val engine = loaded.remove(runtime)?.engine ?: return
        try {
            engine.close()
        } catch (error: RuntimeException) {
            log.failure("closing $runtime", error)
        }
    }

    private fun millisSince(nanos: Long): Long = (System.nanoTime() - nanos) / 1_000_000
}
