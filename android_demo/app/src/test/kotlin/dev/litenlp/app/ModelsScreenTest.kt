package dev.litenlp.app

import android.app.Activity
import android.app.AlertDialog
import android.content.Intent
import android.net.Uri
import android.view.View
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.models.ModelArchives
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowAlertDialog
import java.io.ByteArrayInputStream
import java.io.File
import java.io.IOException
import java.io.InputStream
import java.util.concurrent.Semaphore

class ModelsScreenTest : AppTest() {
    private val place = Uri.parse("content://org.example.files/document/7")
    private val models get() = services.models
    private val folder get() = File(app.noBackupFilesDir, "models")

    private fun open(): MainActivity = launch().get().apply { show(Screens.MODELS) }

    private fun MainActivity.cards(): List<View> =
        findViewById<LinearLayout>(R.id.models_list).let { list -> (0 until list.childCount).map(list::getChildAt) }

    private fun View.text(id: Int) = findViewById<TextView>(id).text.toString()

    private fun View.click(id: Int) {
        check(findViewById<View>(id).performClick())
        idle()
    }

    /** Picks a file whose content is [stream] in the system's file picker. */
    private fun MainActivity.pick(stream: () -> InputStream) {
        shadowOf(contentResolver).registerInputStreamSupplier(place) { stream() }
        click(R.id.import_model)
        val picker = shadowOf(this).nextStartedActivityForResult
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, picker.intent.action)
        shadowOf(this).receiveResult(picker.intent, Activity.RESULT_OK, Intent().setData(place))
    }

    private fun MainActivity.import(content: ByteArray) {
        pick { ByteArrayInputStream(content) }
        await("end of the import") { services.installs.isIdle && models.installing == null && isEnabled(R.id.import_model) }
    }

    private fun Activity.isEnabled(id: Int) = findViewById<View>(id).isEnabled

    /** Imports what is no model: the sentence on screen. Nothing of it may stay, and the model before stays in use. */
    private fun refused(content: ByteArray): String {
        restart()
        val before = folder.list().orEmpty().toList()
        val activity = open()
        activity.import(content)
        assertEquals("7 was not installed", activity.text(R.id.models_failure_title))
        assertEquals(before, folder.list().orEmpty().toList())
        assertEquals("tatoeba-en-de", models.selected?.name)
        assertTrue("the log says more", services.log.text().lines().any { " E 7: LiteNlpException: " in it })
        return activity.text(R.id.models_failure_text)
    }

    @Test
    fun `lists the model that came with the app`() {
        restart()
        val card = open().cards().single()
        assertEquals("English → German", card.text(R.id.model_title))
        assertEquals("tatoeba-en-de", card.text(R.id.model_name))
        assertEquals("ONNX Runtime · ExecuTorch", card.text(R.id.model_runtimes))
        assertTrue(card.text(R.id.model_about).endsWith(" · came with the app"))
        assertEquals(View.VISIBLE, card.findViewById<View>(R.id.model_in_use).visibility)
        assertEquals("it cannot be removed", View.GONE, card.findViewById<View>(R.id.model_remove).visibility)
    }

    @Test
    fun `imports a model, uses it, and removes it again`() {
        restart()
        val activity = open()
        activity.import(TestBundles.zip(name = "holiday-en-de"))
        assertFalse(activity.isShown(R.id.models_failure))
        assertEquals(listOf("tatoeba-en-de", "holiday-en-de"), activity.cards().map { it.text(R.id.model_name) })
        assertEquals("holiday-en-de", models.selected?.name)
        activity.cards()[0].click(R.id.model_use)
        assertEquals("tatoeba-en-de", models.selected?.name)
        activity.cards()[1].click(R.id.model_remove)
        val dialog = ShadowAlertDialog.getLatestDialog() as AlertDialog
        assertEquals("Remove holiday-en-de?", shadowOf(dialog).title)
        dialog.getButton(AlertDialog.BUTTON_POSITIVE).performClick()
        await("removal") { activity.cards().size == 1 }
        assertEquals(1, folder.list()?.size)
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
    fun `refuses what is no bundle`() = assertEquals(
        "This file is not a model bundle. Choose a .zip file that “lite-nlp export” has written.",
        refused("%PDF-1.7 something else".toByteArray()),
    )

    @Test
    fun `refuses a bundle that ends early`() = assertEquals(
        "The file ends too early: it was probably not copied or downloaded to the end. Get it again.",
        refused(TestBundles.zip(name = "x").let { it.copyOf(it.size * 2 / 3) }),
    )

    @Test
    fun `refuses a bundle whose content was altered`() = assertEquals(
        "The file is damaged: its contents do not match its checksums. Get it again.",
        refused(TestBundles.zip(name = "x", members = mapOf("model.pte" to "content of model.ptf".toByteArray()))),
    )

    @Test
    fun `refuses a bundle of a newer version`() = assertEquals(
        "This model was made for a newer version of the app. Update the app, or export the model with an older version of lite-nlp.",
        refused(TestBundles.zip(change = { it.put("schema_version", 2) })),
    )

    @Test
    fun `refuses a bundle with another model's tokenizer`() = assertEquals(
        "The tokenizer in this file belongs to another model. Export the model again.",
        refused(TestBundles.zip(change = { it.getJSONObject("vocabulary").put("src_size", 8000).put("tgt_size", 8000) })),
    )

    @Test
    fun `refuses a bundle that is too large`() = assertEquals(
        "This is larger than the app can take.",
        refused(
            TestBundles.zip(change = { it.getJSONObject("files").getJSONObject("weights.bin").put("size_bytes", 4_000_000_000L) }),
        ),
    )

    @Test
    fun `says when the storage is full`() {
        restart()
        // The model that came with the app is there; what remains is less than any other needs.
        restart(freeBytes = 1000)
        val activity = open()
        activity.import(TestBundles.zip(name = "x"))
        assertEquals("There is not enough free storage. Free some space and try again.", activity.text(R.id.models_failure_text))
        assertEquals(listOf("tatoeba-en-de"), models.models.map { it.name })
        activity.click(R.id.models_failure_dismiss)
        assertFalse(activity.isShown(R.id.models_failure))
    }

    @Test
    fun `says when the file cannot be read`() {
        restart()
        val activity = open()
        for (failure in listOf(IOException("gone"), SecurityException("not yours"), NullPointerException())) {
            activity.pick { throw failure }
            await("end of the import") { activity.isShown(R.id.models_failure) }
            assertEquals(
                "The file could not be read or written. Check the storage and try again.",
                activity.text(R.id.models_failure_text),
            )
            models.dismissFailure()
        }
    }

    @Test
    fun `shows how far an import is, through a rotation too, and stops it on request`() {
        restart()
        val content = TestBundles.zip(name = "x")
        val gate = Semaphore(0)
        val slow = object : InputStream() {
            private val bytes = ByteArrayInputStream(content)
            override fun read(): Int = bytes.read()
            override fun read(target: ByteArray, offset: Int, length: Int): Int {
                if (bytes.available() < content.size / 2) gate.acquire()
                return bytes.read(target, offset, minOf(length, 10_000))
            }
        }
        val controller = launch()
        controller.get().show(Screens.MODELS)
        controller.get().pick { slow }
        await("progress") { (models.installing?.percent ?: 0) > 0 }
        val activity = controller.recreate().visible().get()
        assertTrue(activity.text(R.id.install_text), Regex("Installing 7: \\d+%").matches(activity.text(R.id.install_text)))
        assertFalse("one at a time", activity.isEnabled(R.id.import_model))
        activity.click(R.id.install_cancel)
        gate.release(1000)
        await("end of the import") { models.installing == null }
        assertFalse("stopping is no failure", activity.isShown(R.id.models_failure))
        assertEquals(listOf("tatoeba-en-de"), models.models.map { it.name })
        assertEquals(1, folder.list()?.size)
    }

    @Test
    fun `nothing happens when nothing is picked`() {
        restart()
        val activity = open()
        activity.click(R.id.import_model)
        val picker = shadowOf(activity).nextStartedActivityForResult
        shadowOf(activity).receiveResult(picker.intent, Activity.RESULT_CANCELED, null)
        assertNull(models.installing)
        assertFalse(activity.isShown(R.id.models_failure))
    }

    @Test
    fun `shows details and checks the files`() {
        restart()
        val activity = open()
        activity.cards().single().click(R.id.model_details)
        val dialog = ShadowAlertDialog.getLatestDialog() as AlertDialog
        val texts = shownTexts(dialog.findViewById(R.id.details_lines))
        assertTrue("$texts", texts.containsAll(listOf("4,634,624", "fp32", "6,000 source, 6,000 target", "256 and 512 tokens")))
        val check = dialog.findViewById<TextView>(R.id.details_check)
        dialog.getButton(AlertDialog.BUTTON_NEUTRAL).performClick()
        await("check") { check.text == "All files match their checksums." }
        val program = models.models.single().bundle.file("model.pte")
        program.writeBytes(ByteArray(program.length().toInt()))
        dialog.getButton(AlertDialog.BUTTON_NEUTRAL).performClick()
        await("check") { check.text.startsWith("The file is damaged") }
        dialog.getButton(AlertDialog.BUTTON_NEGATIVE).performClick()
        await("new installation") { services.installs.isIdle && models.installing == null && models.models.size == 1 }
        models.verify(models.models.single()) { problem -> check.text = "problem $problem" }
        await("check") { check.text == "problem null" }
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
    fun `an open dialog survives a rotation`() {
        restart()
        val controller = launch()
        controller.get().show(Screens.MODELS)
        controller.get().import(TestBundles.zip(name = "holiday-en-de"))
        fun dialog() = ShadowAlertDialog.getLatestDialog() as AlertDialog
        for ((button, title) in listOf(R.id.model_details to "holiday-en-de", R.id.model_remove to "Remove holiday-en-de?")) {
            controller.get().cards()[1].click(button)
            val first = dialog()
            val activity = controller.recreate().visible().get()
            idle()
            assertFalse("no window of an activity that is gone", first.isShowing)
            assertTrue(dialog() !== first && dialog().isShowing)
            assertEquals(title, shadowOf(dialog()).title)
            dialog().cancel()
            idle()
            controller.pause().stop().restart().start().resume()
            assertFalse("closed by a person", dialog().isShowing)
            assertEquals(2, activity.cards().size)
        }
        controller.get().cards()[1].click(R.id.model_remove)
        controller.recreate().visible()
        idle()
        dialog().getButton(AlertDialog.BUTTON_POSITIVE).performClick()
        await("removal") { controller.get().cards().size == 1 }
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
