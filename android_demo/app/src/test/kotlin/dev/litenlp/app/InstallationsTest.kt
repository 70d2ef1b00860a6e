package dev.litenlp.app

import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.models.ModelArchives
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.ByteArrayInputStream
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.util.concurrent.Semaphore

/** Models that are installed, replaced and removed, and what becomes of those in use. */
class InstallationsTest : ModelsTest() {
    /** Why a runtime is not used with the selected model, after a translation if that is wanted. */
    private fun failureOf(runtime: String, isTranslated: Boolean = true): Problem? {
        if (isTranslated) {
            services.translate.edit("Good morning!")
            services.translate.translate()
            await("translation") { services.translate.job?.outcome != null }
        }
        return services.engines.failures(checkNotNull(models.selected).bundle)[runtime]?.problem
    }

    @Test
    fun `the engine of a removed model is closed`() {
        restart()
        val activity = open()
        activity.import(TestBundles.zip(name = "holiday-en-de"))
        services.translate.edit("Good morning!")
        services.translate.translate()
        await("translation") { services.translate.job?.outcome != null }
        assertEquals(1, onnx.openEngines.get())
        models.remove(models.models.single { it.name == "holiday-en-de" })
        await("closing") { onnx.openEngines.get() == 0 }
    }

    @Test
    fun `a runtime that failed with damaged files is used again once they are installed anew`() {
        restart()
        onnx.openFailure = LiteNlpException(Problem.RUNTIME_REFUSED, "encode.onnx: found error 7")
        val activity = launch().get()
        fun runtime(): String {
            services.translate.edit("Good morning!")
            services.translate.translate()
            await("translation") { services.translate.job?.outcome != null }
            return (services.translate.job?.outcome as Outcome.Done).runtime
        }
        assertEquals("executorch", runtime())
        onnx.openFailure = null
        assertEquals("not tried for every text", "executorch", runtime())
        models.reinstall(models.models.single())
        await("new installation") { services.installs.isIdle && models.installing == null && models.models.size == 1 }
        assertEquals("onnx", runtime())
        assertFalse(activity.isShown(R.id.error_card))
    }

    @Test
    fun `what failed while the files were replaced is tried again with the new ones`() {
        val gate = Semaphore(1)
        val archive = {
            gate.acquire()
            TestBundles.zip().inputStream()
        }
        restart(archives = mapOf("tatoeba-en-de.zip" to archive))
        onnx.openFailure = LiteNlpException(Problem.RUNTIME_REFUSED, "encode.onnx: expected a file, found none")
        models.reinstall(models.models.single())
        await("removal of the old files") { gate.hasQueuedThreads() }
        // The files are gone, and the model is still listed.
        assertEquals(Problem.RUNTIME_REFUSED, failureOf("onnx"))
        onnx.openFailure = null
        gate.release()
        await("new installation") { services.installs.isIdle && models.installing == null && services.inference.isIdle }
        assertNull(failureOf("onnx", isTranslated = false))
    }

    @Test
    fun `an import in the place of damaged files is used at once`() {
        restart()
        val content = TestBundles.zip(name = "holiday-en-de")
        val activity = open()
        activity.import(content)
        val program = models.selected!!.bundle.file("model.pte")
        program.writeBytes(ByteArray(program.length().toInt()))
        onnx.openFailure = LiteNlpException(Problem.RUNTIME_REFUSED, "encode.onnx: found error 7")
        assertEquals(Problem.RUNTIME_REFUSED, failureOf("onnx"))
        assertEquals("with the damaged files", 1, executorch.openEngines.get())
        onnx.openFailure = null
        activity.import(content)
        await("unloading") { executorch.openEngines.get() == 0 }
        assertNull(failureOf("onnx", isTranslated = false))
        assertTrue(program.readBytes().any { it != 0.toByte() })
    }

    @Test
    fun `a model whose new installation fails is not listed, and comes with the next try`() {
        var free = 1L shl 40
        app.restart(listOf(onnx), mapOf("tatoeba-en-de.zip" to { TestBundles.zip().inputStream() }), freeBytes = { free })
        await("installation") { models.models.size == 1 && !models.isPreparing }
        free = 1000
        models.reinstall(models.models.single())
        await("failure") { models.failure?.problem == Problem.STORAGE_FULL && models.installing == null }
        assertEquals(emptyList<String>(), models.models.map { it.name })
        assertNull(models.selected)
        free = 1L shl 40
        models.start()
        await("another try") { models.selected?.name == "tatoeba-en-de" }
    }

    @Test
    fun `stopping the installation of one model that came with the app leaves the next one`() {
        val gate = Semaphore(0)
        val slow = {
            gate.acquire()
            TestBundles.zip(name = "first").inputStream()
        }
        app.restart(listOf(onnx), mapOf("first.zip" to slow, "second.zip" to { TestBundles.zip(name = "second").inputStream() }))
        await("beginning") { gate.hasQueuedThreads() }
        models.cancelImport()
        gate.release()
        await("end") { !models.isPreparing && models.installing == null }
        assertEquals(listOf("second"), models.models.map { it.name })
    }

    @Test
    fun `an import that stalls holds up nothing else that is kept`() {
        restart()
        val gate = Semaphore(0)
        models.import("far.zip") {
            gate.acquire()
            ByteArrayInputStream(TestBundles.zip(name = "far"))
        }
        await("beginning") { gate.hasQueuedThreads() }
        services.favourites.add(KeptTranslation(1_790_000_000_000, "Thank you!", "Danke!", "en" to "de", "onnx", 84.0))
        await("writing") { services.files.isIdle && app.filesDir.resolve("favourites.jsonl").isFile }
        gate.release()
        await("end") { services.installs.isIdle && models.installing == null && models.models.size == 2 }
    }

    @Test
    fun `stopping one installation leaves the one that was asked for meanwhile`() {
        val gate = Semaphore(0)
        val slow = {
            gate.acquire()
            TestBundles.zip(name = "second").inputStream()
        }
        app.restart(listOf(onnx), mapOf("first.zip" to { TestBundles.zip(name = "first").inputStream() }, "second.zip" to slow))
        await("beginning of the second") { gate.hasQueuedThreads() && models.models.size == 1 }
        models.reinstall(models.models.single())
        models.cancelImport()
        gate.release()
        await("end") { services.installs.isIdle && models.installing == null }
        assertEquals(listOf("first"), models.models.map { it.name })
    }

    @Test
    fun `a list of models that cannot be read is said, and not waited for`() {
        val unreadable = object : ModelArchives {
            override fun names(): List<String> = throw IOException("damaged")
            override fun open(name: String): InputStream = throw IOException("damaged")
        }
        app.restart(listOf(onnx), unreadable)
        services.translate.edit("Good morning!")
        val job = services.translate.translate()
        await("end") { job.outcome != null }
        assertEquals(Problem.STORAGE_FAILED, (job.outcome as Outcome.NoModel).problem)
        assertEquals(Problem.STORAGE_FAILED, models.failure?.problem)
    }

    @Test
    fun `what came with the app is installed once per version of the app`() {
        var reads = 0
        val archive = {
            reads++
            ByteArrayInputStream(TestBundles.zip())
        }
        restart(archives = mapOf("tatoeba-en-de.zip" to archive))
        restart(archives = mapOf("tatoeba-en-de.zip" to archive))
        assertEquals("not again by the same version", 1, reads)
        val first = models.selected
        models.select(checkNotNull(first))
        val newer = { ByteArrayInputStream(TestBundles.zip(change = { it.getJSONObject("budget").put("target", "another") })) }
        restart(archives = mapOf("tatoeba-en-de.zip" to newer), appVersion = "2")
        assertEquals("the older one made place", 1, models.models.size)
        assertTrue("another one is there", first.id != models.selected?.id)
    }

    @Test
    fun `a model whose files are gone is installed again`() {
        restart()
        models.selected!!.bundle.file("model.pte").delete()
        restart()
        assertEquals(listOf("tatoeba-en-de"), models.models.map { it.name })
        assertTrue(models.selected!!.bundle.file("model.pte").exists())
    }

    @Test
    fun `left-overs of an interrupted import are swept`() {
        restart()
        File(folder, ".installing-1234").mkdirs()
        File(folder, ".installing-1234/weights.bin").writeText("half")
        restart()
        assertEquals(listOf(models.selected?.id), folder.list()?.toList())
    }
}
