package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import java.io.ByteArrayInputStream
import java.io.File
import java.io.FileOutputStream
import java.io.IOException
import java.io.InputStream
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class BundleInstallerTest : InstallerFixture() {
    @Test
    fun `a plain bundle`() {
        val bundle = TestBundle()
        val steps = ArrayList<Pair<Long, Long>>()
        val installed = install(bundle.zip(), progress = { done, total -> steps += done to total })
        assertHolds(installed, bundle)
        val hash = TestBundle.sha256(bundle.manifest())
        assertEquals(File(models, "tiny-${hash.take(12)}"), installed.directory)
        assertEquals(hash, installed.manifestSha256)
        assertEquals(steps.map { it.first }.sorted(), steps.map { it.first })
        assertEquals(installed.sizeBytes to installed.sizeBytes, steps.last())
        assertThrows(IllegalArgumentException::class.java) { installed.file("../x") }
    }

    @Test
    fun `installing again changes nothing and reads no further than the manifest`() {
        val zip = TestBundle().zip()
        val first = install(zip)
        val time = 1_000_000_000_000L
        assertTrue(first.file("model.pte").setLastModified(time))
        val again = install(zip.copyOf(zip.size - 500), freeBytes = 0)
        assertEquals(first.directory, again.directory)
        assertEquals(time, again.file("model.pte").lastModified())
        assertEquals(1, leftOver().size)
    }

    @Test
    fun `the folder is made before its storage is asked for its free bytes`() {
        val bundle = TestBundle()
        val nested = File(models, "of/an/app")
        val source = ByteArrayInputStream(bundle.zip())
        val installed = BundleInstaller.install(source, nested, 1_000_000, nested::getUsableSpace, { _, _ -> }, { false })
        assertHolds(installed, bundle)
        assertEquals(nested, installed.directory.parentFile)
    }

    @Test
    fun `a damaged installation is replaced`() {
        val bundle = TestBundle().compact()
        val first = install(bundle.zip())
        first.file("weights.bin").writeBytes(TestBundle.WEIGHTS.clone().also { it[0]++ })
        assertProblem(Problem.ALTERED, "weights.bin: expected SHA-256") { InstalledBundle.open(first.directory, verify = true) }
        assertHolds(install(bundle.zip()), bundle)
        assertTrue(first.file("encode.onnx").delete())
        assertProblem(Problem.ALTERED, "encode.onnx: expected 300 bytes, found no file") {
            InstalledBundle.open(first.directory, verify = false)
        }
        assertHolds(install(bundle.zip()), bundle)
        assertEquals(1, leftOver().size)
    }

    private fun named(name: String): ByteArray =
        TestBundle().also { bundle -> bundle.change = { it.put("name", name) } }.zip()

    @Test
    fun `a name that is a path stays in the folder`() {
        val installed = install(named("../ä/..\\" + "x".repeat(200)))
        assertEquals(models, installed.directory.parentFile)
        assertTrue(installed.directory.name.startsWith("_"), installed.directory.name)
        assertTrue(installed.directory.name.length < 120)
        assertEquals("model", install(named("..")).directory.name.substringBefore("-"))
    }

    @Test
    fun `every beginning of a bundle is truncated, and leaves nothing`() {
        for ((zip, step) in listOf(TestBundle().withoutGraphs().zip() to 1, TestBundle().compact().zip() to 29)) {
            for (length in zip.indices step step) {
                assertProblem(Problem.TRUNCATED) { install(zip.copyOf(length)) }
            }
            assertEquals(emptyList<String>(), leftOver())
        }
    }

    @Test
    fun `no flipped bit gives another bundle`() {
        val bundle = TestBundle().compact()
        val zip = bundle.zip()
        var refusals = 0
        for ((number, place) in (zip.indices step 7).withIndex()) {
            val altered = zip.clone().also { it[place] = (it[place].toInt() xor (1 shl number % 8)).toByte() }
            try {
                val installed = install(altered)
                // In the directory are bytes that say nothing of the content.
                assertHolds(installed, bundle)
                BundleInstaller.remove(installed)
            } catch (error: LiteNlpException) {
                assertTrue(error.problem in DAMAGES, "byte $place: ${error.problem}: ${error.message}")
                refusals++
            }
            assertEquals(emptyList<String>(), leftOver())
        }
        assertTrue(refusals > zip.size / 7 * 0.97, "$refusals of ${zip.size / 7}")
    }

    @Test
    fun `an altered member is named`() {
        val zip = TestBundle().zip()
        val bundle = TestBundle()
        bundle.files["weights.bin"] = TestBundle.WEIGHTS.clone().also { it[3] = 1 }
        val other = ZipWriter().add("manifest.json", TestBundle().manifest())
        for ((name, content) in bundle.files) other.add(name, content)
        refused(Problem.ALTERED, "weights.bin: expected SHA-256 ${TestBundle.sha256(TestBundle.WEIGHTS)}, found") {
            install(other.finish())
        }
        val place = String(zip, Charsets.ISO_8859_1).indexOf("encode.onnx", TestBundle().manifest().size) + "encode.onnx".length + 10
        refused(Problem.ALTERED, "encode.onnx: expected CRC-32") { install(zip.clone().also { it[place] = (it[place] + 1).toByte() }) }
    }

    @Test
    fun `members and manifest must match`() {
        fun zip(edit: (LinkedHashMap<String, ByteArray>) -> Unit): ByteArray {
            val files = TestBundle().files.also(edit)
            val writer = ZipWriter().add("manifest.json", TestBundle().manifest())
            for ((name, content) in files) writer.add(name, content)
            return writer.finish()
        }
        refused(Problem.ALTERED, "found none named config.toml, model.pte") {
            install(zip { it.keys -= setOf("config.toml", "model.pte") })
        }
        refused(Problem.ALTERED, "../evil: expected a member that the manifest lists") { install(zip { it["../evil"] = ByteArray(1) }) }
        refused(Problem.ALTERED, "model.pte: expected ${TestBundle.PROGRAM.size} bytes, found 3") {
            install(zip { it["model.pte"] = ByteArray(3) })
        }
        assertEquals(listOf("models"), parent.list()?.toList())
    }

    @Test
    fun `what is no bundle`() {
        refused(Problem.NOT_A_BUNDLE, "begins with 4C") { install("Lorem ipsum".toByteArray()) }
        refused(Problem.NOT_A_BUNDLE, "begins with 'config.toml'") { install(ZipWriter().add("config.toml", ByteArray(3)).finish()) }
        refused(Problem.NOT_A_BUNDLE, "expected JSON") { install(ZipWriter().add("manifest.json", ByteArray(3)).finish()) }
        refused(Problem.NOT_A_BUNDLE, "at most 4000000 bytes") { install(ZipWriter().add("manifest.json", ByteArray(4_000_001)).finish()) }
    }

    @Test
    fun `a newer schema and another tokenizer`() {
        refused(Problem.NEWER_SCHEMA, "expected schema_version 1, found 2") {
            install(TestBundle().also { bundle -> bundle.change = { it.put("schema_version", 2) } }.zip())
        }
        fun withTokenizer(content: ByteArray) = TestBundle().also { it.files["tokenizer.json"] = content }.zip()
        refused(Problem.OTHER_TOKENIZER, "expected 4 source and 4 target types, found 5") {
            install(withTokenizer(TestBundle.tokenizer("<pad>", "<s>", "</s>", "a", "b")))
        }
        refused(Problem.OTHER_TOKENIZER, "found [0, 2, 1]") { install(withTokenizer(TestBundle.tokenizer("<pad>", "</s>", "<s>", "a"))) }
        refused(Problem.OTHER_TOKENIZER, "expected JSON") { install(withTokenizer("{".toByteArray())) }
        refused(Problem.OTHER_TOKENIZER, "expected a tokenizer with a vocabulary") { install(withTokenizer("""{"model": 3}""".toByteArray())) }
    }

    @Test
    fun `too large, before anything is written`() {
        for (bundle in listOf(TestBundle(), TestBundle().compact())) {
            val size = install(bundle.zip()).also(BundleInstaller::remove).sizeBytes
            val archive = bundle.files.values.sumOf { it.size.toLong() } + bundle.manifest().size
            val needed = maxOf(size, archive)
            refused(Problem.TOO_LARGE, "at most ${needed - 1} bytes, found $needed") { install(bundle.zip(), maxBytes = needed - 1) }
            BundleInstaller.remove(install(bundle.zip(), maxBytes = needed))
        }
        val huge = TestBundle().also { bundle ->
            bundle.change = {
                it.getJSONObject("files").put("x", JSONObject().put("size_bytes", Long.MAX_VALUE).put("sha256", "0".repeat(64)))
            }
        }
        refused(Problem.TOO_LARGE, "found one of ${Long.MAX_VALUE}") { install(huge.zip()) }
    }

    @Test
    fun `too little storage, before anything is written`() {
        val bundle = TestBundle()
        val needed = bundle.files.values.sumOf { it.size.toLong() } + bundle.manifest().size
        assertTrue(parent.resolve("models").mkdir())
        val before = models.lastModified()
        refused(Problem.STORAGE_FULL, "expected $needed bytes of free storage, found ${needed - 1}") {
            install(bundle.zip(), freeBytes = needed - 1)
        }
        assertEquals(before, models.lastModified())
        install(bundle.zip(), freeBytes = needed)
    }

    /** Installs to a storage that takes [capacity] bytes, then fails with [message]. */
    private fun installWithin(capacity: Long, message: String, zip: ByteArray, free: () -> Long = { 1_000_000 }): InstalledBundle {
        var left = capacity
        val folder = ModelsFolder(models) { file ->
            object : FileOutputStream(file) {
                override fun write(content: ByteArray, offset: Int, length: Int) {
                    if (length > left) throw IOException(message)
                    left -= length
                    super.write(content, offset, length)
                }
            }
        }
        return BundleInstaller.install(ByteArrayInputStream(zip), folder, 1_000_000, free, { _, _ -> }, { false })
    }

    @Test
    fun `storage that fills up while writing leaves nothing behind, wherever it happens`() {
        val zip = TestBundle().compact().zip()
        val messages = listOf("write failed: ENOSPC (No space left on device)", "No space left on device", "EDQUOT (Quota exceeded)")
        var capacity = 0L
        while (true) {
            val message = messages[(capacity % messages.size).toInt()]
            try {
                installWithin(capacity, message, zip)
                break
            } catch (error: LiteNlpException) {
                assertEquals(Problem.STORAGE_FULL, error.problem, error.message)
                assertTrue(message in error.message, error.message)
            }
            assertEquals(emptyList<String>(), leftOver(), "with $capacity bytes")
            capacity += 97
        }
        assertTrue(capacity > 1500, "$capacity")
    }

    @Test
    fun `a failure in words unknown is a full storage if there is no place left`() {
        val zip = TestBundle().zip()
        var asked = 0
        refused(Problem.STORAGE_FULL, "nicht genug", "found 3") {
            installWithin(1000, "nicht genug", zip) { if (asked++ == 0) 1_000_000 else 3 }
        }
        refused(Problem.STORAGE_FAILED, "could not be written: broken") { installWithin(1000, "broken", zip) }
    }

    @Test
    fun `a folder that cannot be made`() {
        assertTrue(models.createNewFile())
        assertProblem(Problem.STORAGE_FAILED, "could not be written") { install(TestBundle().zip()) }
    }

    @Test
    fun `cancelled at every moment, nothing is left`() {
        val zip = TestBundle().compact().zip()
        var allowed = 0
        while (true) {
            var asked = 0
            try {
                install(zip, cancelled = { asked++ == allowed })
                break
            } catch (error: LiteNlpException) {
                assertEquals(Problem.CANCELLED, error.problem, error.message)
            }
            assertEquals(emptyList<String>(), leftOver(), "at question $allowed")
            allowed++
        }
        assertTrue(allowed > 10, "$allowed")
    }

    @Test
    fun `what a listener throws leaves nothing behind either`() {
        assertThrows(ArithmeticException::class.java) { install(TestBundle().zip(), progress = { _, _ -> throw ArithmeticException() }) }
        assertEquals(emptyList<String>(), leftOver())
        refused(Problem.OUT_OF_MEMORY) { install(TestBundle().zip(), progress = { _, _ -> throw OutOfMemoryError() }) }
    }

    @Test
    fun `list, remove and sweep`() {
        assertEquals(emptyList<InstalledBundle>(), BundleInstaller.listInstalled(models))
        val second = install(named("second"))
        val first = install(named("first"))
        File(models, ".installing-left").mkdir()
        File(models, ".installing-left/model.pte").writeText("x")
        File(models, ".removed-left").mkdir()
        File(models, "damaged-0123456909ab").mkdir()
        assertEquals(listOf(first, second).map { it.directory }, BundleInstaller.listInstalled(models).map { it.directory })
        assertEquals(setOf(first.directory.name, second.directory.name, "damaged-0123456909ab"), leftOver().toSet())
        BundleInstaller.remove(first)
        BundleInstaller.remove(first)
        assertEquals(listOf("second"), BundleInstaller.listInstalled(models).map { it.manifest.name })
    }

    @Test
    fun `an installation under way is not swept`() {
        val bundle = TestBundle().compact()
        val installed = install(bundle.zip(), progress = { _, _ -> assertEquals(0, BundleInstaller.listInstalled(models).size) })
        assertHolds(installed, bundle)
    }

    @Test
    fun `the same bundle installed twice at the same time`() {
        val zip = TestBundle().zip()
        var inner: InstalledBundle? = null
        val outer = install(zip, progress = { done, total -> if (done == total && inner == null) inner = install(zip) })
        assertEquals(checkNotNull(inner).directory, outer.directory)
        assertHolds(outer, TestBundle())
        assertEquals(1, leftOver().size)
    }

    @Test
    fun `the source is not closed`() {
        var closed = false
        val source: InputStream = object : ByteArrayInputStream(TestBundle().zip()) {
            override fun close() {
                closed = true
            }
        }
        BundleInstaller.install(source, models, 1_000_000, { 1_000_000 }, { _, _ -> }, { false })
        assertTrue(!closed)
    }

    private companion object {
        val DAMAGES = setOf(Problem.NOT_A_BUNDLE, Problem.TRUNCATED, Problem.ALTERED)
    }
}
