package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.container.Container
import dev.litenlp.core.container.saturatingAdd
import dev.litenlp.core.naming
import java.io.File
import java.io.FileInputStream
import java.io.IOException
import java.io.InputStream
import java.security.MessageDigest

/** One installation of a bundle; [BundleInstaller.install] describes it. */
internal class Installation(
    private val folder: ModelsFolder,
    private val maxBytes: Long,
    private val freeBytes: () -> Long,
    private val progress: (doneBytes: Long, totalBytes: Long) -> Unit,
    private val cancelled: () -> Boolean,
) {
    private val buffer = ByteArray(BLOCK_BYTES)
    private var doneBytes = 0L
    private var totalBytes = 0L

    fun run(source: InputStream): InstalledBundle {
        val zip = StoredZip(source)
        val content = readManifest(zip)
        val manifest = Manifest.parse(content)
        try {
            val target = folder.folderOf(manifest, sha256Of(content))
            installed(target)?.let { return it }
            // A folder that is not there has no free bytes.
            folder.create()
            planSizes(manifest, content.size.toLong())
            checkCancelled()
            return folder.withStaging { staging ->
                unpack(zip, manifest, staging)
                write(File(staging, Manifest.FILE)) { it(content, content.size) }
                checkCancelled()
                publish(staging, target)
            }
        } catch (error: IOException) {
            throw storageProblem(error)
        }
    }

    private fun readManifest(zip: StoredZip): ByteArray {
        val first = zip.next()
        if (first?.name != Manifest.FILE || first.sizeBytes > Limits.MAX_MANIFEST_BYTES) {
            throw LiteNlpException(
                Problem.NOT_A_BUNDLE,
                "expected a bundle, which begins with ${Manifest.FILE} of at most ${Limits.MAX_MANIFEST_BYTES} bytes, found a .zip file " +
                    "that begins with '${first?.name}' of ${first?.sizeBytes} bytes",
            )
        }
        val content = ByteArray(first.sizeBytes.toInt())
        var filled = 0
        while (true) {
            val count = zip.read(buffer)
            if (count < 0) return content
            buffer.copyInto(content, filled, 0, count)
            filled += count
        }
    }

    /** The bundle in [target] if it is there and undamaged. */
    private fun installed(target: File): InstalledBundle? {
        if (!target.exists()) return null
        return try {
            InstalledBundle.open(target, verify = true)
        } catch (_: LiteNlpException) {
            null
        }
    }

    /** Refuses what is too large before anything is written. */
    private fun planSizes(manifest: Manifest, manifestBytes: Long) {
        val stored = manifest.files.values.fold(manifestBytes) { sum, entry -> saturatingAdd(sum, entry.sizeBytes) }
        val made = manifest.packed?.members.orEmpty().values.fold(0L) { sum, member -> saturatingAdd(sum, member.entry.sizeBytes) }
        val size = maxOf(stored, saturatingAdd(installedBytes(manifest), manifestBytes))
        if (size > maxBytes) {
            throw LiteNlpException(Problem.TOO_LARGE, "${manifest.name}: expected a bundle of at most $maxBytes bytes, found $size")
        }
        // What members are made of is deleted only after they have been made.
        totalBytes = saturatingAdd(stored, made)
        val free = freeBytes()
        if (totalBytes > free) {
            throw LiteNlpException(
                Problem.STORAGE_FULL, "${manifest.name}: expected $totalBytes bytes of free storage, found $free",
            )
        }
    }

    private fun unpack(zip: StoredZip, manifest: Manifest, staging: File) {
        val missing = HashSet(manifest.files.keys)
        while (true) {
            val member = zip.next() ?: break
            val entry = manifest.files[member.name]
                ?: throw altered("${member.name}: expected a member that the manifest lists, found another")
            missing.remove(member.name)
            if (member.sizeBytes != entry.sizeBytes) {
                throw altered("${member.name}: expected ${entry.sizeBytes} bytes, found ${member.sizeBytes}: the bundle is damaged")
            }
            val found = write(File(staging, member.name)) { sink ->
                while (true) {
                    val count = zip.read(buffer)
                    if (count < 0) break
                    sink(buffer, count)
                }
            }
            expectSha256(member.name, entry.sha256, found)
        }
        if (missing.isNotEmpty()) {
            throw altered("expected the members that the manifest lists, found none named ${missing.sorted().joinToString(", ")}")
        }
        makeMembers(manifest, staging)
        checkTokenizer(File(staging, Manifest.TOKENIZER_FILE).readBytes(), manifest.vocabulary)
    }

    private fun makeMembers(manifest: Manifest, staging: File) {
        val packed = manifest.packed ?: return
        val container = naming(packed.container) { Container.parse(File(staging, packed.container).readBytes()) }
        val recipes = FileInputStream(File(staging, packed.recipes)).use { source ->
            InflatedStream(source, packed.recipes, packed.recipesBytes).use { stream ->
                val content = ByteArray(packed.recipesBytes.toInt()).also { stream.fill(it, it.size) }
                stream.expectEnd()
                Recipes.parse(content, packed)
            }
        }
        naming(packed.container) { checkUnused(container, recipes) }
        val scalings = packed.exponents?.let { file ->
            FileInputStream(File(staging, file)).use { Scaling.read(recipes.scaled, it, file, container) }
        }
        val codes = packed.codes?.let { file ->
            FileInputStream(File(staging, file)).use { RoundingCodes.read(recipes.rounded, it, file, container) }
        }
        val maker = MemberMaker(container, scalings.orEmpty(), codes.orEmpty())
        for ((name, member) in packed.members) {
            val found = FileInputStream(File(staging, member.residual)).use { residual ->
                write(File(staging, name)) { sink -> maker.make(name, member, recipes.parts.getValue(name), residual, sink) }
            }
            expectSha256(name, member.entry.sha256, found)
        }
        for (ingredient in packed.ingredients) {
            if (!File(staging, ingredient).delete()) throw IOException("$ingredient: could not be deleted")
        }
    }

    /** Decodes the tensors that no member is made of: the Python package decodes all, and refuses a bundle with a bad one. */
    private fun checkUnused(container: Container, recipes: Recipes) {
        val parts = recipes.parts.values.flatten()
        val named = parts.mapNotNullTo(HashSet()) { (it as? Part.OfTensor)?.tensor ?: (it as? Part.OfIntegers)?.tensor }
        val used = named.mapTo(HashSet()) { container.aliases[it] ?: it }
        for ((name, tensor) in container.tensors) {
            if (name !in used) if (tensor.isInteger) tensor.decodeLongs() else tensor.decodeFloats()
        }
    }

    /** Writes a new file; returns its SHA-256. */
    private fun write(file: File, fill: (sink: (content: ByteArray, count: Int) -> Unit) -> Unit): String {
        // Where names differ in case alone and the file system cares for none.
        if (!file.createNewFile()) throw IOException("${file.name}: expected a new file, found one of that name")
        val digest = MessageDigest.getInstance("SHA-256")
        folder.openFile(file).use { output ->
            fill { content, count ->
                checkCancelled()
                output.write(content, 0, count)
                digest.update(content, 0, count)
                doneBytes += count
                progress(doneBytes, totalBytes)
            }
        }
        return hex(digest)
    }

    private fun publish(staging: File, target: File): InstalledBundle {
        if (!folder.publish(staging, target)) {
            // Either it was installed at the same time, or what is there is damaged.
            installed(target)?.let { return it }
            folder.remove(target)
            if (!folder.publish(staging, target)) throw IOException("$target: could not be replaced")
        }
        return InstalledBundle.open(target, verify = false)
    }

    private fun checkCancelled() {
        if (cancelled()) throw LiteNlpException(Problem.CANCELLED, "installing: stopped on request after $doneBytes bytes")
    }

    private fun storageProblem(error: IOException): LiteNlpException {
        val left = totalBytes - doneBytes
        val free = freeBytes()
        if (free < left || generateSequence<Throwable>(error) { it.cause }.any(::saysFull)) {
            return LiteNlpException(
                Problem.STORAGE_FULL, "expected $left bytes more of free storage, found $free: ${error.message}", error,
            )
        }
        return LiteNlpException(Problem.STORAGE_FAILED, "the bundle could not be written: ${error.message}", error)
    }

    /** Java has no type for it: Android names the error code, a JVM the system's words for it. */
    private fun saysFull(error: Throwable): Boolean {
        val message = error.message.orEmpty()
        return FULL.any { message.contains(it, ignoreCase = true) }
    }

    private companion object {
        const val BLOCK_BYTES = 1 shl 16
        val FULL = listOf("ENOSPC", "EDQUOT", "No space left", "quota exceeded", "not enough space")
    }
}

private fun altered(message: String) = LiteNlpException(Problem.ALTERED, message)
