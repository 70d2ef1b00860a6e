package dev.litenlp.app

import android.content.res.Configuration
import android.os.Bundle
import android.os.Looper
import android.widget.EditText
import android.widget.TextView
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.translate.TranslateScreen.Companion.MOST_TYPED
import dev.litenlp.app.ui.translate.TranslateScreen.Companion.PAUSE_MS
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import java.time.Duration
import java.util.concurrent.Semaphore

/** Translation while a person types, as the app does it unless that is switched off. */
class TypingTest : AppTest() {
    private fun MainActivity.type(text: String) = findViewById<EditText>(R.id.input).setText(text)

    private fun passTime(ms: Long) = shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(ms))

    private fun begin(): MainActivity {
        restart(typing = null, figures = null)
        return launch().get()
    }

    private fun awaitOutput(activity: MainActivity, text: String) = await(text) {
        activity.text(R.id.output) == text && services.translate.job?.outcome != null
    }

    private val loaded get() = services.translate.job

    @Test
    fun `a pause is enough, a shorter one is not`() {
        val activity = begin()
        assertFalse("no button where nothing needs one", activity.isShown(R.id.translate))
        activity.type("Good mor")
        passTime(PAUSE_MS - 1)
        activity.type("Good morning!")
        passTime(PAUSE_MS - 1)
        assertNull("nothing began yet", services.translate.job)
        passTime(1)
        awaitOutput(activity, "Guten Morgen!")
        assertFalse("no figures unless wanted", activity.isShown(R.id.status))
    }

    @Test
    fun `an unchanged text is not translated again`() {
        val activity = begin()
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        val job = services.translate.job
        activity.type("Good morning")
        activity.type("Good morning!")
        passTime(5 * PAUSE_MS)
        activity.show(Screens.MODELS)
        activity.show(Screens.TRANSLATE)
        passTime(5 * PAUSE_MS)
        assertTrue("the same translation", job === services.translate.job)
    }

    @Test
    fun `a new text stops the translation of the old one, whose output stays until there is another`() {
        val activity = begin()
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        val permits = Semaphore(0)
        onnx.permits = permits
        activity.type("Where is the nearest")
        passTime(PAUSE_MS)
        val old = checkNotNull(services.translate.job)
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertTrue("shown as outdated", activity.findViewById<TextView>(R.id.output).alpha < 1)
        assertFalse("nothing to copy while it changes", activity.isShown(R.id.copy))
        assertTrue("at work, without words that come and go", activity.isShown(R.id.busy) && !activity.isShown(R.id.status))
        activity.type("Where is the nearest train station?")
        passTime(PAUSE_MS)
        permits.release(100)
        awaitOutput(activity, "Wo ist der nächste Bahnhof?")
        assertEquals("dev.litenlp.app.inference.Outcome\$Cancelled", old.outcome?.javaClass?.name)
        assertEquals(1f, activity.findViewById<TextView>(R.id.output).alpha)
    }

    @Test
    fun `the history gets the text that a person ends with, not the ones on the way`() {
        val activity = begin()
        for (text in listOf("Where is", "Where is the nearest", "Where is the nearest train station?")) {
            activity.type(text)
            passTime(PAUSE_MS)
            await(text) { loaded?.text == text && loaded?.outcome != null }
        }
        assertEquals(emptyList<String>(), services.history.entries.map { it.source })
        activity.click(R.id.copy)
        await("history") { services.history.entries.size == 1 }
        assertEquals("Where is the nearest train station?", services.history.entries.single().source)
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.show(Screens.MODELS)
        await("another text is another entry, once left") { services.history.entries.size == 2 }
        assertEquals("Good morning!", services.history.entries.first().source)
    }

    @Test
    fun `deleting the text takes the translation away`() {
        val activity = begin()
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.type("")
        assertFalse(activity.isShown(R.id.output_card))
        passTime(5 * PAUSE_MS)
        assertNull(services.translate.job)
    }

    @Test
    fun `a long text waits for the button, and so does one that was stopped`() {
        val activity = begin()
        activity.type("x ".repeat(MOST_TYPED / 2) + "y")
        passTime(5 * PAUSE_MS)
        assertNull(services.translate.job)
        assertTrue(activity.isShown(R.id.translate))
        val permits = Semaphore(0)
        onnx.permits = permits
        activity.type("Good morning!")
        assertFalse(activity.isShown(R.id.translate))
        passTime(PAUSE_MS)
        activity.click(R.id.stop)
        permits.release(100)
        await("end") { services.translate.job?.outcome != null }
        val stopped = services.translate.job
        passTime(5 * PAUSE_MS)
        assertTrue("not begun again", stopped === services.translate.job)
        activity.click(R.id.translate)
        awaitOutput(activity, "Guten Morgen!")
    }

    @Test
    fun `what was replaced can come back until a person types on`() {
        val activity = begin()
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        services.translate.replace("Where is the nearest", TranslateSession.Reason.SHARED)
        activity.show(Screens.MODELS)
        activity.show(Screens.TRANSLATE)
        passTime(PAUSE_MS)
        await("translation") { loaded?.outcome != null && !services.translate.needsTranslation }
        assertTrue("translated, and still to be undone", activity.isShown(R.id.replaced_undo))
        activity.type("Where is the nearest train station?")
        awaitOutput(activity, "Wo ist der nächste Bahnhof?")
        assertFalse(activity.isShown(R.id.replaced_card))
    }

    @Test
    fun `an undone replacement comes back with its translation, without another run`() {
        val activity = begin()
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.click(R.id.clear)
        activity.click(R.id.replaced_undo)
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        passTime(5 * PAUSE_MS)
        assertNull(services.translate.job)
    }

    @Test
    fun `a translation that was under way when its text was replaced begins anew once that is undone`() {
        val activity = begin()
        val permits = Semaphore(0)
        onnx.permits = permits
        activity.type("Where is the nearest train station?")
        passTime(PAUSE_MS)
        permits.release(3)
        await("first words") { activity.text(R.id.output).startsWith("Wo ist") }
        activity.click(R.id.clear)
        activity.click(R.id.replaced_undo)
        assertEquals("Where is the nearest train station?", activity.text(R.id.input))
        assertFalse("no part to be kept as the whole", activity.isShown(R.id.favourite))
        assertEquals("", services.translate.output)
        permits.release(100)
        awaitOutput(activity, "Wo ist der nächste Bahnhof?")
        assertTrue(activity.isShown(R.id.favourite))
    }

    @Test
    fun `a text that no model was there for is translated once there is one`() {
        val gate = Semaphore(0)
        var free = 1000L
        val slow = {
            gate.acquire()
            TestBundles.zip().inputStream()
        }
        app.restart(listOf(onnx), mapOf("tatoeba-en-de.zip" to slow), freeBytes = { free })
        val activity = launch().get()
        activity.type("Good morning!")
        // While the model is being installed, which fails.
        services.translate.translate()
        gate.release()
        await("no model") { activity.isShown(R.id.no_model_card) && services.translate.job?.outcome is Outcome.NoModel }
        assertTrue(services.translate.needsTranslation)
        free = 1L shl 40
        gate.release()
        activity.click(R.id.no_model_retry)
        awaitOutput(activity, "Guten Morgen!")
    }

    @Test
    fun `a rotation during the pause, and the end of the process, lose nothing and repeat nothing`() {
        restart(typing = null, figures = null)
        val controller = launch()
        controller.get().type("Good morning!")
        passTime(PAUSE_MS / 2)
        RuntimeEnvironment.setQualifiers("+land")
        controller.configurationChange(Configuration(app.resources.configuration))
        awaitOutput(controller.visible().get(), "Guten Morgen!")
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart(typing = null, figures = null)
        val next = Robolectric.buildActivity(MainActivity::class.java).setup(saved).get()
        passTime(5 * PAUSE_MS)
        assertEquals("Guten Morgen!", next.text(R.id.output))
        assertNull("translated before", services.translate.job)
    }

    /** Ends the process in the middle of a translation by [factory] as native code does: nothing of the app gets to know. */
    private fun endDuring(factory: FakeEngineFactory) {
        restart(typing = null, figures = null)
        factory.permits = Semaphore(0)
        val controller = launch()
        controller.get().type("Good morning!")
        passTime(PAUSE_MS)
        await("first step") { factory.permits?.hasQueuedThreads() == true }
        services.translate.save()
        val marks = app.noBackupFilesDir.resolve("first-uses")
        val names = marks.list().orEmpty()
        factory.permits?.release(100)
        await("end") { services.inference.isIdle }
        assertEquals("no mark of what went well", emptyList<String>(), marks.list()?.toList())
        for (name in names) marks.resolve(name).createNewFile()
        factory.permits = null
    }

    @Test
    fun `a runtime that ended the process does not translate by itself any more`() {
        endDuring(onnx)
        val opened = onnx.opened.get()
        repeat(2) {
            restart(typing = null, figures = null)
            val activity = launch().get()
            awaitOutput(activity, "Guten Morgen!")
            val ended = "The app ended while this runtime loaded this model or first translated with it."
            assertTrue("${shownTexts(activity.findViewById(R.id.notices))}", shownTexts(activity.findViewById(R.id.notices)).any { ended in it })
        }
        assertEquals(opened, onnx.opened.get())
        services.engines.forgetFailures()
        restart(typing = null, figures = null)
        launch().get().type("The children are playing in the garden.")
        await("translation") { services.translate.job?.outcome != null }
        assertEquals("asked for again", opened + 1, onnx.opened.get())
    }

    @Test
    fun `with no other runtime a person decides about another try`() {
        executorch.openFailure = FakeEngineFactory.missing("ExecuTorch")
        endDuring(onnx)
        val opened = onnx.opened.get()
        restart(typing = null, figures = null)
        val activity = launch().get()
        await("end") { services.translate.job?.outcome != null }
        assertEquals(opened, onnx.opened.get())
        assertTrue(activity.text(R.id.error_text), activity.text(R.id.error_text).startsWith("ONNX Runtime: The app ended while"))
        activity.click(R.id.error_retry)
        awaitOutput(activity, "Guten Morgen!")
        assertEquals(opened + 1, onnx.opened.get())
    }

    @Test
    fun `the end of the app in the background is nobody's failure`() {
        restart(typing = null, figures = null)
        onnx.permits = Semaphore(0)
        val controller = launch()
        controller.get().type("Good morning!")
        passTime(PAUSE_MS)
        await("first step") { onnx.permits?.hasQueuedThreads() == true }
        assertEquals(1, app.noBackupFilesDir.resolve("first-uses").list()?.size)
        controller.pause().stop()
        assertEquals(0, app.noBackupFilesDir.resolve("first-uses").list()?.size)
    }

    @Test
    fun `switched off, nothing happens without the button`() {
        restart(typing = false)
        val activity = launch().get()
        activity.type("Good morning!")
        passTime(10 * PAUSE_MS)
        assertNull(services.translate.job)
        assertTrue(activity.isShown(R.id.translate))
    }
}
