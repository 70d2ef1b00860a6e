package dev.litenlp.app

import android.content.Context
import android.os.Build
import android.os.Handler
import android.os.Looper
import dev.litenlp.app.history.TranslationList
import dev.litenlp.app.inference.EngineHost
import dev.litenlp.app.inference.FirstUses
import dev.litenlp.app.inference.TokenCounter
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.inference.TranslationJob
import dev.litenlp.app.measure.Measurements
import dev.litenlp.app.models.ModelArchives
import dev.litenlp.app.models.ModelStore
import dev.litenlp.core.engine.EngineFactory
import java.io.File

/**
 * State and services shared by all screens, created once per process by [LiteNlpApplication]; tests inject engines and archives.
 *
 * @param factories the runtimes of this build, the preferred one first
 * @param archives the models that came with the app
 * @param freeBytes space left for models
 * @param appVersion bundled models are installed anew when it changes
 */
class Services(
    val context: Context,
    val factories: List<EngineFactory>,
    archives: ModelArchives,
    freeBytes: (File) -> Long = File::getUsableSpace,
    appVersion: String = installedVersion(context),
) {
    val log = EventLog(crashFile = File(context.filesDir, "crash.txt"))
    val preferences = Preferences(context)
    val main = Handler(Looper.getMainLooper())

    /** Thread on which engines are opened, run and closed; it does nothing else. */
    val inference = SerialThread("lite-nlp-inference") { log.failure("inference thread", it) }

    /** Thread for the app's own files and token counting. */
    val files = SerialThread("lite-nlp-files") { log.failure("file thread", it) }

    /** Thread that installs models: what a person picks may be read from a network, and stall. */
    val installs = SerialThread("lite-nlp-installs") { log.failure("installation thread", it) }

    val firstUses = FirstUses(File(context.noBackupFilesDir, "first-uses"), log)
    val engines = EngineHost(factories, firstUses, log)
    val tokens = TokenCounter(files, main, log)
    val models = ModelStore(
        directory = File(context.noBackupFilesDir, "models"),
        archives = archives,
        appVersion = appVersion,
        preferences = preferences,
        log = log,
        thread = installs,
        main = main,
        freeBytes = freeBytes,
        onReplaced = { folder ->
            inference.run { engines.unload(folder) }
            tokens.forget()
        },
    )
    val history = TranslationList(File(context.filesDir, "history.jsonl"), log, files, main)

    /** Those that a person marked; none of them goes by itself. */
    val favourites = TranslationList(
        File(context.filesDir, "favourites.jsonl"), log, files, main, maxEntries = Int.MAX_VALUE, maxChars = 4_000_000,
    )
    val translate = TranslateSession(
        file = File(context.filesDir, "draft.json"),
        log = log,
        model = { models.selected?.id },
        isTypedTranslated = preferences::translatesWhileTyping,
        makeJob = { text, isKept -> TranslationJob(this, text, isKept) },
    )
    val measurements = Measurements(this, File(context.filesDir, "benchmark.json"))

    /** Frees what the engines hold, after what they are at. The next translation loads them again, in a moment. */
    fun unloadEngines(why: String) {
        inference.run { engines.unloadAll(why) }
        tokens.forget()
    }

    /** The log with what a reader of it needs to know about this device; holds no text that was translated. */
    fun report(): String {
        val head = listOf(
            "Lite NLP ${versionName(context)} on ${Build.MANUFACTURER} ${Build.MODEL}",
            "Android ${Build.VERSION.RELEASE} (API ${Build.VERSION.SDK_INT}), ${Build.SUPPORTED_ABIS.joinToString(" ")}",
            "model ${models.selected?.id ?: "none"}, runtimes ${engines.runtimes.joinToString(" ")}, " +
                "${preferences.threads} of ${Runtime.getRuntime().availableProcessors()} threads",
        )
        return (head + log.text()).joinToString("\n")
    }

    companion object {
        /** The services of the app that [context] belongs to. */
        fun of(context: Context): Services = (context.applicationContext as LiteNlpApplication).services

        /** The app's version as people write it. */
        fun versionName(context: Context): String =
            context.packageManager.getPackageInfo(context.packageName, 0).versionName ?: "?"

        /** Differs between two installations of the app, also of one version: a developer's next build counts. */
        private fun installedVersion(context: Context): String {
            val info = context.packageManager.getPackageInfo(context.packageName, 0)
            return "${info.versionName}-${info.lastUpdateTime}"
        }
    }
}
