package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.io.File
import java.io.FileOutputStream
import java.io.InputStream

/** Installs, lists and removes bundles in a folder that holds nothing else. For any thread; several may install at a time. */
object BundleInstaller {
    /**
     * Unpacks a bundle to a folder `<name>-<first 12 digits of the manifest's SHA-256>`, completely or not at all.
     *
     * Everything is checked: names, sizes, SHA-256 of what is stored and of what a compact bundle describes, and the tokenizer.
     * No file is written before the sizes have been held against [maxBytes] and [freeBytes]. A bundle that is already installed
     * and undamaged is returned as it is, without the rest of [source] being read.
     *
     * @param source The `.zip` file that `lite-nlp export` writes; not closed.
     * @param modelsDirectory Where to; made if it does not exist.
     * @param maxBytes Largest bundle to accept: its archive, and its files once installed.
     * @param freeBytes Bytes that the storage has left.
     * @param progress Called now and then with the bytes written and those that there will be in the end.
     * @param cancelled Asked before every block of 64 KiB.
     * @throws LiteNlpException `NOT_A_BUNDLE`, `TRUNCATED`, `ALTERED`, `NEWER_SCHEMA`, `OTHER_TASK`, `OTHER_TOKENIZER`,
     *   `TOO_LARGE`, `UNSUPPORTED`, `STORAGE_FULL`, `STORAGE_FAILED`, `OUT_OF_MEMORY` or `CANCELLED`.
     */
    fun install(
        source: InputStream,
        modelsDirectory: File,
        maxBytes: Long,
        freeBytes: () -> Long,
        progress: (doneBytes: Long, totalBytes: Long) -> Unit,
        cancelled: () -> Boolean,
    ): InstalledBundle =
        install(source, ModelsFolder(modelsDirectory, ::FileOutputStream), maxBytes, freeBytes, progress, cancelled)

    internal fun install(
        source: InputStream,
        folder: ModelsFolder,
        maxBytes: Long,
        freeBytes: () -> Long,
        progress: (doneBytes: Long, totalBytes: Long) -> Unit,
        cancelled: () -> Boolean,
    ): InstalledBundle {
        try {
            return Installation(folder, maxBytes, freeBytes, progress, cancelled).run(source)
        } catch (error: OutOfMemoryError) {
            throw LiteNlpException(Problem.OUT_OF_MEMORY, "installing: the memory did not suffice: ${error.message}", error)
        }
    }

    /**
     * Removes a bundle: at once from the list, then from the storage. What is in use stays until it is closed.
     *
     * @throws LiteNlpException `STORAGE_FAILED`
     */
    fun remove(bundle: InstalledBundle) {
        val parent = bundle.directory.absoluteFile.parentFile
            ?: throw LiteNlpException(Problem.STORAGE_FAILED, "${bundle.directory}: expected a folder within another")
        ModelsFolder(parent, ::FileOutputStream).remove(bundle.directory)
    }

    /**
     * The bundles installed in a folder, by name of their folders; damaged ones are left out. Deletes what installations and
     * removals that were interrupted have left over.
     */
    fun listInstalled(modelsDirectory: File): List<InstalledBundle> {
        val folder = ModelsFolder(modelsDirectory, ::FileOutputStream)
        folder.sweep()
        return folder.bundleFolders().mapNotNull { directory ->
            try {
                InstalledBundle.open(directory, verify = false)
            } catch (_: LiteNlpException) {
                null
            }
        }
    }
}
