package dev.litenlp.app

import android.app.Activity
import android.app.AlertDialog
import android.view.View
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.LiteNlpException
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowAlertDialog
import java.io.ByteArrayInputStream
import java.io.IOException
import java.io.InputStream
import java.util.concurrent.Semaphore

class ModelsScreenTest : ModelsTest() {
    private fun MainActivity.cards(): List<View> =
        findViewById<LinearLayout>(R.id.models_list).let { list -> (0 until list.childCount).map(list::getChildAt) }

    private fun View.text(id: Int) = findViewById<TextView>(id).text.toString()

    private fun View.click(id: Int) {
        check(findViewById<View>(id).performClick())
        idle()
    }

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
}
