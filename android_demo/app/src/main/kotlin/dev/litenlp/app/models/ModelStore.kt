package dev.litenlp.app.models

import android.os.Handler
import dev.litenlp.app.Changes
import dev.litenlp.app.EventLog
import dev.litenlp.app.Preferences
import dev.litenlp.app.SerialThread
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.bundle.InstalledBundle
import java.io.File
import java.io.IOException
import java.io.InputStream

/**
 * A model that is installed.
 *
 * @property archive the bundle in the app that it comes from, null if it was imported
 */
class Model(val bundle: InstalledBundle, val archive: String?) {
    /** Unlike any other installed model's; the name of its folder. */
    val id: String get() = bundle.directory.name

    val name: String get() = bundle.manifest.name

    /** Codes of source and target, null if the model does not say. */
    val languages: Pair<String, String>? get() = bundle.manifest.languages?.let { it.src to it.tgt }
}

/** @property percent how far an installation is, null while that is not known */
class Installing(val name: String, val percent: Int?)

/** @property name of the file or model that could not be installed, opened or removed */
class ModelFailure(val name: String, val problem: Problem)

/**
 * The models: those that came with the app, which it installs at its first start and again when the app's version changes, and
 * those that were imported. The fields and methods are for the main thread; the work is done on [thread], one thing at a time.
 *
 * @param freeBytes space left in a folder's storage
 * @param onReplaced told a model's folder name when its files go or have come, before the model is published
 */
class ModelStore(
    private val directory: File,
    private val archives: ModelArchives,
    private val appVersion: String,
    private val preferences: Preferences,
    private val log: EventLog,
    private val thread: SerialThread,
    private val main: Handler,
    private val freeBytes: (File) -> Long,
    private val onReplaced: (String) -> Unit,
) {
    /** Announces whatever changes in the fields below. */
    val changes = Changes()

    /** The installed models: bundled ones first, in the order of [archives], then by name. */
    var models: List<Model> = emptyList()
        private set

    /** Whether the models that came with the app are still looked at or installed. */
    var isPreparing = true
        private set

    /** The installation under way. */
    var installing: Installing? = null
        private set

    /** The last failure, until it is dismissed or another task begins. */
    var failure: ModelFailure? = null
        private set

    /** The model that translates: the chosen one, else the first. */
    val selected: Model? get() = models.find { it.id == preferences.model } ?: models.firstOrNull()

    /** The first installed model from one language to another. */
    fun find(languages: Pair<String, String>): Model? = models.find { it.languages == languages }

    /** An installed model that translates back what [selected] translates. */
    val reverse: Model? get() = selected?.languages?.let { (source, target) -> find(target to source) }

    @Volatile
    private var isCancelled = false

    /** Looks for models and installs what came with the app, if this version has not. */
    fun start() = work("") {
        // What failed is known before those who wait learn that nothing more comes.
        attempt("") {
            directory.mkdirs()
            publish()
            for (name in archiveNames()) {
                // Who stops the installation of one model does not stop that of the next.
                isCancelled = false
                attempt(name.removeSuffix(".zip")) { installBundled(name) }
            }
        }
        main.post {
            isPreparing = false
            changes.announce()
        }
    }

    /**
     * Checks and installs a bundle that a person picked; it is then the selected model.
     *
     * @param name of the file, as that person knows it
     * @param open called on the installation thread; an [IOException] or [RuntimeException] counts as failed storage
     */
    fun import(name: String, open: () -> InputStream) = work(name) {
        val bundle = try {
            open().use { install(it, name) }
        } catch (error: IOException) {
            throw LiteNlpException(Problem.STORAGE_FAILED, "$name: ${error.message}", error)
        }
        log.info("imported $name as ${bundle.directory.name}")
        preferences.model = bundle.directory.name
        publish()
    }

    /** Stops an import; nothing of it stays. */
    fun cancelImport() {
        isCancelled = true
    }

    fun select(model: Model) {
        preferences.model = model.id
        changes.announce()
    }

    /** Removes an imported model. */
    fun remove(model: Model) = work(model.name) {
        delete(model.bundle)
        log.info("removed ${model.id}")
        publish()
    }

    /** Installs a bundled model once more, for the case that its files were damaged. */
    fun reinstall(model: Model) {
        val archive = requireNotNull(model.archive) { "${model.id} did not come with the app" }
        work(model.name) {
            delete(model.bundle)
            preferences.setBundledInstall(archive, "")
            try {
                installBundled(archive)
            } finally {
                // The old files are gone even if no new ones came.
                publish()
            }
        }
    }

    /** Reads all of a model's files and compares their checksums; [report] gets null if they are sound. */
    fun verify(model: Model, report: (Problem?) -> Unit) = thread.run {
        val problem = try {
            InstalledBundle.open(model.bundle.directory, verify = true)
            null
        } catch (error: LiteNlpException) {
            log.failure("check of ${model.id}", error)
            error.problem
        }
        main.post { report(problem) }
    }

    fun dismissFailure() {
        failure = null
        changes.announce()
    }

    /** Shows a failure that happened before there was anything to install. */
    fun report(name: String, error: LiteNlpException) {
        log.failure(name, error)
        failure = ModelFailure(name, error.problem)
        changes.announce()
    }

    private fun work(name: String, task: () -> Unit) {
        failure = null
        thread.run {
            // Not when it is asked for: who stops what is under way then does not stop this.
            isCancelled = false
            attempt(name, task)
        }
    }

    private fun attempt(name: String, task: () -> Unit) {
        try {
            task()
        } catch (error: LiteNlpException) {
            fail(name, error)
        } catch (error: OutOfMemoryError) {
            fail(name, LiteNlpException(Problem.OUT_OF_MEMORY, "$name: ${error.message}", error))
        } catch (error: RuntimeException) {
            // Files of other apps come from code of other apps, which may throw anything.
            fail(name, LiteNlpException(Problem.STORAGE_FAILED, "$name: ${error.message}", error))
        } finally {
            main.post {
                installing = null
                changes.announce()
            }
        }
    }

    private fun fail(name: String, error: LiteNlpException) {
        if (error.problem == Problem.CANCELLED) {
            log.info("$name: cancelled")
            return
        }
        log.failure(name, error)
        main.post { failure = ModelFailure(name, error.problem) }
    }

    private fun install(source: InputStream, name: String): InstalledBundle {
        var shown = -1
        main.post {
            installing = Installing(name, null)
            changes.announce()
        }
        return BundleInstaller.install(
            source = source,
            modelsDirectory = directory,
            maxBytes = MAX_MODEL_BYTES,
            freeBytes = { freeBytes(directory) - RESERVE_BYTES },
            progress = { done, total ->
                val percent = if (total > 0) (done * 100 / total).toInt().coerceIn(0, 100) else null
                if (percent != null && percent != shown) {
                    shown = percent
                    main.post {
                        installing = Installing(name, percent)
                        changes.announce()
                    }
                }
            },
            cancelled = { isCancelled },
        ).also { onReplaced(it.directory.name) }
    }

    private fun installBundled(archive: String) {
        val record = preferences.bundledInstall(archive).orEmpty()
        val folder = record.substringAfter(' ', "")
        val present = BundleInstaller.listInstalled(directory).find { it.directory.name == folder }
        if (present != null && record.substringBefore(' ') == appVersion) return
        val bundle = try {
            archives.open(archive).use { install(it, archive.removeSuffix(".zip")) }
        } catch (error: IOException) {
            throw LiteNlpException(Problem.STORAGE_FAILED, "$archive: ${error.message}", error)
        }
        log.info("installed $archive as ${bundle.directory.name}")
        preferences.setBundledInstall(archive, "$appVersion ${bundle.directory.name}")
        if (present != null && present.directory.name != bundle.directory.name) replace(present, bundle)
        publish()
    }

    /** An older version of a bundled model makes place for the new one. */
    private fun replace(old: InstalledBundle, new: InstalledBundle) {
        if (preferences.model == old.directory.name) preferences.model = new.directory.name
        delete(old)
    }

    private fun delete(bundle: InstalledBundle) {
        // First, since what is in use takes storage until it is closed; again, since a translation may have begun in between.
        onReplaced(bundle.directory.name)
        BundleInstaller.remove(bundle)
        onReplaced(bundle.directory.name)
    }

    /** On the installation thread: reads what is installed and shows it. */
    private fun publish() {
        val names = archiveNames()
        val bundled = HashMap<String, String>()
        for (archive in names) {
            bundled[preferences.bundledInstall(archive).orEmpty().substringAfter(' ', "")] = archive
        }
        val found = BundleInstaller.listInstalled(directory)
            .map { Model(it, bundled[it.directory.name]) }
            .sortedWith(compareBy({ it.archive == null }, { names.indexOf(it.archive) }, { it.name }, { it.id }))
        main.post {
            models = found
            changes.announce()
        }
    }

    private fun archiveNames(): List<String> = try {
        archives.names()
    } catch (error: IOException) {
        throw LiteNlpException(Problem.STORAGE_FAILED, "list of bundled models: ${error.message}", error)
    }

    private companion object {
        /** Far above what this project makes, and far below what would fill a phone by mistake. */
        const val MAX_MODEL_BYTES = 512L shl 20

        /** Left free for the rest of the system. */
        const val RESERVE_BYTES = 16L shl 20
    }
}
