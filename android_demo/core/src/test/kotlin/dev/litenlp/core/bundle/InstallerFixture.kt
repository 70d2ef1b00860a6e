package dev.litenlp.core.bundle

import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import java.io.ByteArrayInputStream
import java.io.File
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.io.TempDir

/** Installs bundles of [TestBundle] to a folder of its own. */
abstract class InstallerFixture {
    @TempDir
    lateinit var parent: File
    protected val models: File get() = File(parent, "models")

    protected fun install(
        zip: ByteArray,
        maxBytes: Long = 1_000_000,
        freeBytes: Long = 1_000_000,
        progress: (Long, Long) -> Unit = { _, _ -> },
        cancelled: () -> Boolean = { false },
    ): InstalledBundle = BundleInstaller.install(ByteArrayInputStream(zip), models, maxBytes, { freeBytes }, progress, cancelled)

    /** Checks that [action] is refused and that nothing of it is left. */
    protected fun refused(problem: Problem, vararg parts: String, action: () -> Unit) {
        assertProblem(problem, *parts, action = action)
        assertEquals(emptyList<String>(), leftOver())
    }

    protected fun leftOver(): List<String> = models.list()?.toList().orEmpty()

    internal fun assertHolds(installed: InstalledBundle, bundle: TestBundle) {
        val expected = mapOf("manifest.json" to bundle.manifest(), "weights.bin" to TestBundle.WEIGHTS, "model.pte" to TestBundle.PROGRAM) +
            bundle.files.filterKeys { "residual" !in it && "lnlp" !in it && "zlib" !in it && "codes" !in it }
        assertEquals(expected.keys, installed.directory.list()?.toSet())
        for ((name, content) in expected) assertArrayEquals(content, installed.file(name).readBytes(), name)
        assertEquals(expected.values.sumOf { it.size.toLong() }, installed.sizeBytes)
    }
}
