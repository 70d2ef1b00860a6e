package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.container.saturatingAdd
import dev.litenlp.core.tokenizer.Tokenizer
import java.io.File
import java.io.FileInputStream
import java.io.IOException
import java.security.MessageDigest
import java.util.Locale

/**
 * A bundle unpacked to a folder of its own, every member a file. Made by [BundleInstaller] and by [open].
 *
 * @property directory The folder.
 * @property manifest Its table of contents.
 * @property manifestSha256 SHA-256 of `manifest.json`, which tells bundles apart: lower-case hexadecimal.
 * @property sizeBytes Of all its files.
 */
class InstalledBundle private constructor(
    val directory: File,
    val manifest: Manifest,
    val manifestSha256: String,
    val sizeBytes: Long,
) {
    /**
     * The file of a member.
     *
     * @throws IllegalArgumentException If the bundle has no such member.
     */
    fun file(member: String): File {
        require(member == Manifest.FILE || member in manifest.plainFiles) {
            "$directory: expected one of ${manifest.plainFiles.keys.sorted()}, found '$member'"
        }
        return File(directory, member)
    }

    /**
     * Reads the tokenizer.
     *
     * @throws LiteNlpException `STORAGE_FAILED`, or what [Tokenizer.fromJson] throws.
     */
    fun tokenizer(): Tokenizer = Tokenizer.fromJson(readFile(file(Manifest.TOKENIZER_FILE)))

    companion object {
        /**
         * Opens a folder that a bundle was installed to.
         *
         * @param verify Whether to check the SHA-256 of every file and that the tokenizer is the model's. Without, only that
         *   the files are there and have the right sizes.
         * @throws LiteNlpException `NOT_A_BUNDLE`, `NEWER_SCHEMA`, `OTHER_TASK`, `ALTERED`, `OTHER_TOKENIZER` or
         *   `STORAGE_FAILED`.
         */
        fun open(directory: File, verify: Boolean): InstalledBundle {
            val manifestFile = File(directory, Manifest.FILE)
            if (!manifestFile.isFile || manifestFile.length() > Limits.MAX_MANIFEST_BYTES) {
                throw LiteNlpException(
                    Problem.NOT_A_BUNDLE,
                    "$directory: expected a bundle with ${Manifest.FILE} of at most ${Limits.MAX_MANIFEST_BYTES} bytes, found none",
                )
            }
            val content = readFile(manifestFile)
            val manifest = Manifest.parse(content)
            for ((name, entry) in manifest.plainFiles) checkFile(File(directory, name), entry, verify)
            if (verify) checkTokenizer(readFile(File(directory, Manifest.TOKENIZER_FILE)), manifest.vocabulary)
            return InstalledBundle(directory, manifest, sha256Of(content), installedBytes(manifest) + content.size)
        }

        private fun checkFile(file: File, entry: FileEntry, verify: Boolean) {
            if (!file.isFile || file.length() != entry.sizeBytes) {
                val found = if (file.isFile) "${file.length()}" else "no file"
                throw LiteNlpException(Problem.ALTERED, "$file: expected ${entry.sizeBytes} bytes, found $found")
            }
            if (!verify) return
            val digest = MessageDigest.getInstance("SHA-256")
            val buffer = ByteArray(BLOCK_BYTES)
            try {
                FileInputStream(file).use {
                    while (true) {
                        val count = it.read(buffer)
                        if (count < 0) break
                        digest.update(buffer, 0, count)
                    }
                }
            } catch (error: IOException) {
                throw unreadable(file, error)
            }
            expectSha256("$file", entry.sha256, hex(digest))
        }

        private fun readFile(file: File): ByteArray = try {
            file.readBytes()
        } catch (error: IOException) {
            throw unreadable(file, error)
        }

        private fun unreadable(file: File, error: IOException) =
            LiteNlpException(Problem.STORAGE_FAILED, "$file: expected a readable file: ${error.message}", error)

        private const val BLOCK_BYTES = 1 shl 16
    }
}

/** Bytes of an installed bundle's files but the manifest. */
internal fun installedBytes(manifest: Manifest): Long =
    manifest.plainFiles.values.fold(0L) { sum, entry -> saturatingAdd(sum, entry.sizeBytes) }

internal fun expectSha256(what: String, expected: String, found: String) {
    if (found != expected) {
        throw LiteNlpException(Problem.ALTERED, "$what: expected SHA-256 $expected, found $found: it has been altered")
    }
}

internal fun sha256Of(content: ByteArray): String = hex(MessageDigest.getInstance("SHA-256").apply { update(content) })

/** Value of [digest] in lower-case hexadecimal. */
internal fun hex(digest: MessageDigest): String =
    digest.digest().joinToString("") { "%02x".format(Locale.ROOT, it) }
