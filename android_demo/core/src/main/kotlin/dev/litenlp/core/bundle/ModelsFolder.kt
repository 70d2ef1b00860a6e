package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.nio.channels.FileChannel
import java.nio.file.Files
import java.nio.file.StandardCopyOption
import java.nio.file.StandardOpenOption
import java.util.UUID

/**
 * The folder in which bundles are installed, each in a folder of its own. A folder under work, or on its way out, has a name that
 * no bundle has.
 *
 * @param openFile Creates a file for writing.
 */
internal class ModelsFolder(private val directory: File, val openFile: (File) -> FileOutputStream) {
    /** Folder of a bundle, whether there is one or not. */
    fun folderOf(manifest: Manifest, manifestSha256: String): File {
        // The name comes from the file: kept readable, but never a path, a hidden file, or too long for one.
        val letters = manifest.name.map { if (it in 'a'..'z' || it in 'A'..'Z' || it in '0'..'9' || it in "._-") it else '_' }
        val name = letters.joinToString("").take(MAX_NAME_LENGTH).trimStart('.').ifEmpty { "model" }
        return File(directory, "$name-${manifestSha256.take(HASH_DIGITS)}")
    }

    /** Makes the folder unless it is there, as itself or by a link. */
    fun create() {
        if (!directory.isDirectory) Files.createDirectories(directory.toPath())
    }

    /** Does [work] with a new folder, which is deleted afterwards unless it has been [publish]ed. */
    fun <T> withStaging(work: (staging: File) -> T): T {
        val staging = File(directory, STAGING_PREFIX + UUID.randomUUID())
        // Before it exists: a sweep in between must not take it for a left-over.
        synchronized(active) { active.add(staging.absolutePath) }
        try {
            Files.createDirectories(staging.toPath())
            return work(staging)
        } finally {
            staging.deleteRecursively()
            synchronized(active) { active.remove(staging.absolutePath) }
        }
    }

    /**
     * Moves an unpacked bundle to its place, atomically and durably.
     *
     * @return Whether it could be done; if not, there is something in that place already.
     */
    fun publish(staging: File, target: File): Boolean {
        for (file in staging.listFiles().orEmpty()) FileChannel.open(file.toPath(), StandardOpenOption.WRITE).use { it.force(true) }
        syncFolder(staging)
        try {
            Files.move(staging.toPath(), target.toPath(), StandardCopyOption.ATOMIC_MOVE)
        } catch (error: IOException) {
            if (target.exists()) return false
            throw error
        }
        syncFolder(directory)
        return true
    }

    /** Removes a bundle's folder atomically, then deletes its files. */
    fun remove(bundleFolder: File) {
        val removed = File(directory, REMOVED_PREFIX + UUID.randomUUID())
        if (!bundleFolder.exists()) return
        try {
            Files.move(bundleFolder.toPath(), removed.toPath(), StandardCopyOption.ATOMIC_MOVE)
        } catch (error: IOException) {
            throw LiteNlpException(Problem.STORAGE_FAILED, "$bundleFolder: could not be removed: ${error.message}", error)
        }
        removed.deleteRecursively()
    }

    /** Deletes left-overs of installations and removals that were interrupted, not those under way in this process. */
    fun sweep() {
        for (folder in folders()) {
            val leftOver = folder.name.startsWith(REMOVED_PREFIX) ||
                (folder.name.startsWith(STAGING_PREFIX) && synchronized(active) { folder.absolutePath !in active })
            if (leftOver) folder.deleteRecursively()
        }
    }

    /** Folders that may hold bundles, sorted by name. */
    fun bundleFolders(): List<File> = folders().filter { !it.name.startsWith(".") }.sortedBy { it.name }

    private fun folders(): List<File> = directory.listFiles()?.filter { it.isDirectory }.orEmpty()

    /** Not every system can; then the file system's own order of writing has to do. */
    private fun syncFolder(folder: File) {
        try {
            FileChannel.open(folder.toPath(), StandardOpenOption.READ).use { it.force(true) }
        } catch (_: IOException) {
            return
        }
    }

    private companion object {
        const val STAGING_PREFIX = ".installing-"
        const val REMOVED_PREFIX = ".removed-"
        const val MAX_NAME_LENGTH = 100
        const val HASH_DIGITS = 12
        val active = HashSet<String>()
    }
}
