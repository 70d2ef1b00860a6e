package dev.litenlp.app

import android.app.Activity
import android.content.ComponentName
import android.content.Intent
import android.content.res.Configuration
import android.os.Bundle
import android.view.View
import android.widget.EditText
import dev.litenlp.app.ui.IncomingText
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.SelectionActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import java.util.concurrent.Semaphore

/** Text from other apps: selected there, or shared. */
class OtherAppsTest : AppTest() {
    private fun select(text: CharSequence?, readOnly: Boolean = false, caller: Boolean = true): ActivityController<SelectionActivity> {
        val intent = Intent(Intent.ACTION_PROCESS_TEXT).setType("text/plain")
            .putExtra(Intent.EXTRA_PROCESS_TEXT, text)
            .putExtra(Intent.EXTRA_PROCESS_TEXT_READONLY, readOnly)
        val controller = Robolectric.buildActivity(SelectionActivity::class.java, intent)
        if (caller) shadowOf(controller.get()).setCallingActivity(ComponentName("org.example.notes", "org.example.notes.Editor"))
        return controller.setup().visible()
    }

    private fun share(text: CharSequence) = Intent(Intent.ACTION_SEND).setType("text/plain").putExtra(Intent.EXTRA_TEXT, text)

    private fun awaitTranslation(activity: Activity) =
        await("translation") { activity.findViewById<View>(R.id.selection_busy).visibility == View.GONE }

    @Test
    fun `is offered for selected and for shared text`() {
        val packages = app.packageManager
        val selected = packages.queryIntentActivities(Intent(Intent.ACTION_PROCESS_TEXT).setType("text/plain"), 0)
        assertEquals(listOf(SelectionActivity::class.java.name), selected.map { it.activityInfo.name })
        assertEquals("Translate offline", app.getString(selected.single().activityInfo.labelRes))
        val shared = packages.queryIntentActivities(Intent(Intent.ACTION_SEND).setType("text/plain"), 0)
        assertEquals(listOf(MainActivity::class.java.name), shared.map { it.activityInfo.name })
    }

    @Test
    fun `translates the selection and puts it in its place`() {
        restart()
        val activity = select("Good morning!").get()
        awaitTranslation(activity)
        assertEquals("Guten Morgen!", activity.text(R.id.selection_output))
        assertEquals("English → German", activity.text(R.id.selection_title))
        activity.click(R.id.selection_replace)
        assertTrue(activity.isFinishing)
        assertEquals(Activity.RESULT_OK, shadowOf(activity).resultCode)
        assertEquals("Guten Morgen!", shadowOf(activity).resultIntent.getCharSequenceExtra(Intent.EXTRA_PROCESS_TEXT).toString())
    }

    @Test
    fun `does not offer to replace text that must not change`() {
        restart()
        val readOnly = select("Good morning!", readOnly = true).get()
        awaitTranslation(readOnly)
        assertFalse(readOnly.isShown(R.id.selection_replace))
        assertTrue(readOnly.isShown(R.id.selection_copy))
        val unanswered = select("Good morning!", caller = false).get()
        awaitTranslation(unanswered)
        assertFalse(unanswered.isShown(R.id.selection_replace))
    }

    @Test
    fun `an empty or missing selection has an answer`() {
        restart()
        for (nothing in listOf(null, "", "  \n")) {
            assertEquals("There is no text to translate.", select(nothing).get().text(R.id.selection_status))
        }
    }

    @Test
    fun `a selection beyond the bound is cut and cannot replace the whole`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val activity = select("word ".repeat(IncomingText.MAX_CHARS / 4)).get()
        assertTrue(activity.text(R.id.selection_status).endsWith("Only the first 100,000 characters fit; the rest was left out."))
        activity.finish()
    }

    @Test
    fun `a rotation does not translate the selection again`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val controller = select("Where is the nearest train station?")
        permits.release(2)
        await("beginning") { controller.get().text(R.id.selection_output).isNotEmpty() }
        val before = controller.get()
        RuntimeEnvironment.setQualifiers("+land")
        controller.configurationChange(Configuration(app.resources.configuration))
        assertTrue("expected another activity", controller.get() !== before)
        permits.release(100)
        awaitTranslation(controller.get())
        assertEquals("Wo ist der nächste Bahnhof?", controller.get().text(R.id.selection_output))
        await("history") { services.history.entries.size == 1 }
    }

    @Test
    fun `says when no runtime works, with a log to copy`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        executorch.openFailure = FakeEngineFactory.missing("ExecuTorch")
        restart()
        val activity = select("Good morning!").get()
        awaitTranslation(activity)
        assertTrue(activity.text(R.id.selection_status).startsWith("This runtime is not available on this device"))
        assertTrue(activity.isShown(R.id.selection_log))
        assertFalse(activity.isShown(R.id.selection_replace))
    }

    @Test
    fun `says when there is no model`() {
        restart(archives = emptyMap())
        val activity = select("Good morning!").get()
        awaitTranslation(activity)
        assertEquals("Import a model to translate.", activity.text(R.id.selection_status))
    }

    @Test
    fun `opens the whole app with the selection`() {
        restart()
        val activity = select("Good morning!").get()
        activity.click(R.id.selection_open)
        val main = launch(shadowOf(activity).nextStartedActivity).get()
        assertEquals("Good morning!", main.text(R.id.input))
    }

    @Test
    fun `takes over a shared text, and the one before it comes back`() {
        restart()
        val controller = launch(share("Good morning!"))
        assertEquals("Good morning!", controller.get().text(R.id.input))
        controller.get().show(Screens.MODELS)
        controller.newIntent(share("The children are playing in the garden."))
        assertEquals(Screens.TRANSLATE, controller.get().shown)
        assertEquals("The children are playing in the garden.", controller.get().text(R.id.input))
        assertEquals("A text from another app has replaced yours.", controller.get().text(R.id.replaced_text))
        controller.get().click(R.id.replaced_undo)
        assertEquals("Good morning!", controller.get().text(R.id.input))
    }

    @Test
    fun `coming back to the app changes nothing`() {
        restart()
        val controller = launch(share("Good morning!"))
        controller.get().findViewById<EditText>(R.id.input).setText("changed")
        controller.get().show(Screens.MODELS)
        controller.newIntent(Intent(Intent.ACTION_MAIN))
        assertEquals(Screens.MODELS, controller.get().shown)
        val again = launch(share("Good morning!").addFlags(Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY)).get()
        assertEquals("changed", again.text(R.id.input))
    }

    @Test
    fun `nonsense of other apps is no text`() {
        restart()
        for (extra in listOf(Bundle().apply { putInt(Intent.EXTRA_TEXT, 7) }, Bundle())) {
            val activity = launch(Intent(Intent.ACTION_SEND).setType("text/plain").putExtras(extra)).get()
            assertEquals("", activity.text(R.id.input))
        }
    }

    @Test
    fun `a shared text beyond the bound is cut with a sentence`() {
        restart()
        val activity = launch(share("x".repeat(IncomingText.MAX_CHARS + 5))).get()
        assertEquals(IncomingText.MAX_CHARS, activity.text(R.id.input).length)
        assertTrue(activity.isShown(R.id.cut))
    }
}
