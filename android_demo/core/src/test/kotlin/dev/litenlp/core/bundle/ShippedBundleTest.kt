package dev.litenlp.core.bundle

import java.io.ByteArrayInputStream
import java.io.File
import java.util.zip.ZipFile
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/**
 * A real bundle, named by the system property `litenlp.bundle`; with `litenlp.plain-bundle` naming the plain form of the same
 * model, its members are compared byte by byte.
 */
class ShippedBundleTest {
    @TempDir
    lateinit var models: File
    private lateinit var bundle: File

    @BeforeEach
    fun find() {
        val path = System.getProperty("litenlp.bundle")
        assumeTrue(path != null, "no bundle named by -Dlitenlp.bundle")
        bundle = File(path)
    }

    private fun install(): InstalledBundle = bundle.inputStream().use {
        BundleInstaller.install(it, models, 1L shl 30, models::getUsableSpace, { _, _ -> }, { false })
    }

    @Test
    fun `it unpacks to what its manifest says`() {
        val started = System.nanoTime()
        val installed = install()
        println("${bundle.name}: ${bundle.length()} bytes to ${installed.sizeBytes} in ${(System.nanoTime() - started) / 1_000_000} ms")
        val verified = InstalledBundle.open(installed.directory, verify = true)
        assertEquals(installed.manifest.plainFiles.keys + "manifest.json", installed.directory.list()?.toSet())
        assertTrue(verified.tokenizer().vocabSize in listOf(verified.manifest.vocabulary.srcSize, verified.manifest.vocabulary.tgtSize))
        assertEquals(listOf(installed.directory), BundleInstaller.listInstalled(models).map { it.directory })
    }

    @Test
    fun `it becomes the plain bundle`() {
        val plain = System.getProperty("litenlp.plain-bundle")
        assumeTrue(plain != null, "no bundle named by -Dlitenlp.plain-bundle")
        val installed = install()
        ZipFile(plain).use { zip ->
            val names = zip.entries().asSequence().map { it.name }.filter { it != "manifest.json" }.toSet()
            assertEquals(names, installed.manifest.plainFiles.keys)
            for (name in names) {
                val expected = zip.getInputStream(zip.getEntry(name)).use { it.readBytes() }
                assertTrue(expected.contentEquals(installed.file(name).readBytes()), name)
            }
        }
    }

    @Test
    fun `a heap of 64 MiB suffices`() {
        val content = bundle.readBytes()
        val runtime = Runtime.getRuntime()
        var peak = 0L
        System.gc()
        val before = runtime.totalMemory() - runtime.freeMemory()
        BundleInstaller.install(
            ByteArrayInputStream(content), models, 1L shl 30, models::getUsableSpace,
            { done, _ ->
                // Collecting garbage at every block would take minutes.
                if (done % (4L shl 20) < (1L shl 16)) {
                    System.gc()
                    peak = maxOf(peak, runtime.totalMemory() - runtime.freeMemory() - before)
                }
            },
            { false },
        )
        println("live memory: at most $peak bytes more than before")
        assertTrue(peak in 1..(64L shl 20), "$peak")
    }
}
