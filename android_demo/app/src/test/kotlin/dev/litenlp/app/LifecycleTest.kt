package dev.litenlp.app

import android.content.ComponentCallbacks2
import android.content.res.Configuration
import android.os.Bundle
import android.os.Looper
import android.widget.EditText
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import java.time.Duration
import java.util.concurrent.Semaphore

class LifecycleTest : AppTest() {
    private fun MainActivity.input() = findViewById<EditText>(R.id.input)

    private fun ActivityController<MainActivity>.translate(text: String) {
        get().input().setText(text)
        get().click(R.id.translate)
        await("end of the translation") { services.translate.job?.outcome != null }
    }

    private fun ActivityController<MainActivity>.rotate(): MainActivity {
        RuntimeEnvironment.setQualifiers("+land")
        configurationChange(Configuration(app.resources.configuration))
        return visible().get()
    }

    @Test
    fun `a rotation loses neither text nor translation nor cursor`() {
        restart()
        val controller = launch()
        controller.translate("Good morning!")
        controller.get().input().setSelection(2, 5)
        val before = controller.get()
        val after = controller.rotate()
        assertTrue("expected another activity", before !== after)
        assertEquals("Good morning!", after.text(R.id.input))
        assertEquals("Guten Morgen!", after.text(R.id.output))
        assertEquals(2 to 5, after.input().selectionStart to after.input().selectionEnd)
    }

    @Test
    fun `a translation goes on through a rotation`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val controller = launch()
        controller.get().input().setText("Where is the nearest train station?")
        controller.get().click(R.id.translate)
        permits.release(2)
        await("beginning") { controller.get().text(R.id.output).isNotEmpty() }
        val after = controller.rotate()
        assertTrue("still running", after.isShown(R.id.stop))
        permits.release(100)
        await("end") { after.text(R.id.output) == "Wo ist der nächste Bahnhof?" }
        assertEquals("loaded once", 1, onnx.opened.get())
    }

    @Test
    fun `a rotation stays on the screen and keeps the way back`() {
        restart()
        val controller = launch()
        controller.get().show(Screens.MODELS)
        controller.get().show(Screens.SETTINGS)
        val after = controller.rotate()
        assertEquals(Screens.SETTINGS, after.shown)
        after.goBack()
        assertEquals(Screens.MODELS, after.shown)
        after.goBack()
        assertEquals(Screens.TRANSLATE, after.shown)
    }

    @Test
    fun `the end of the process loses neither text nor translation`() {
        restart()
        val controller = launch()
        controller.translate("Good morning!")
        controller.get().input().setText("Good morning!\nAnd more that is not translated yet")
        controller.get().input().setSelection(4)
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart()
        val next = Robolectric.buildActivity(MainActivity::class.java).setup(saved).get()
        assertEquals("Good morning!\nAnd more that is not translated yet", next.text(R.id.input))
        assertEquals("Guten Morgen!", next.text(R.id.output))
        assertEquals(4, next.input().selectionStart)
    }

    @Test
    fun `a text too long for saved state survives the end of the process`() {
        restart()
        val controller = launch()
        val text = "All of this has to come back. ".repeat(3_000)
        controller.get().input().setText(text)
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        val parcel = android.os.Parcel.obtain().apply { writeBundle(saved) }
        assertTrue("expected a small state, found ${parcel.dataSize()} bytes", parcel.dataSize() < 20_000)
        parcel.recycle()
        restart()
        assertEquals(text, Robolectric.buildActivity(MainActivity::class.java).setup(saved).get().text(R.id.input))
    }

    @Test
    fun `a damaged draft is left out`() {
        app.filesDir.resolve("draft.json").writeText("{\"input\": \"Good morning!\" and more")
        restart()
        assertEquals("", launch().get().text(R.id.input))
        assertTrue("draft" in services.log.text())
        assertFalse("the log holds no texts", "Good" in services.log.text())
    }

    @Test
    fun `going back from any screen ends at the first, and then leaves the app`() {
        restart()
        val activity = launch().get()
        activity.show(Screens.MODELS)
        activity.show(Screens.LOG)
        @Suppress("DEPRECATION")
        activity.onBackPressed()
        assertEquals(Screens.MODELS, activity.shown)
        @Suppress("DEPRECATION")
        activity.onBackPressed()
        assertEquals(Screens.TRANSLATE, activity.shown)
        assertFalse(activity.isFinishing)
    }

    @Test
    fun `gives the engines back when memory is short`() {
        restart()
        val controller = launch()
        controller.translate("Good morning!")
        assertEquals(1, onnx.openEngines.get())
        app.onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN)
        await("thread") { services.inference.isIdle }
        assertEquals("hidden is no pressure", 1, onnx.openEngines.get())
        app.onTrimMemory(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND)
        await("unloading") { onnx.openEngines.get() == 0 }
        controller.translate("Good morning!")
        assertEquals(2, onnx.opened.get())
    }

    @Test
    fun `gives the engines back a minute after it was left`() {
        restart()
        val controller = launch()
        controller.translate("Good morning!")
        controller.pause().stop()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofSeconds(50))
        controller.restart().resume()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofSeconds(50))
        await("thread") { services.inference.isIdle }
        assertEquals("it came back in time", 1, onnx.openEngines.get())
        controller.pause().stop()
        shadowOf(Looper.getMainLooper()).idleFor(Duration.ofSeconds(61))
        await("unloading") { onnx.openEngines.get() == 0 }
    }

    @Test
    fun `the trace of a crash is in the next log`() {
        restart()
        services.log.recordCrash(Thread.currentThread(), IllegalStateException("expected two, found three"))
        restart()
        assertTrue(services.log.text(), "IllegalStateException: expected two, found three" in services.log.text())
        restart()
        assertFalse("once", "expected two" in services.log.text())
    }
}
