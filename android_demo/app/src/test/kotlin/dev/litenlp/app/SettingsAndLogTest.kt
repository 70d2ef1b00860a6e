package dev.litenlp.app

import android.content.ClipboardManager
import android.content.Intent
import android.widget.RadioGroup
import android.widget.SeekBar
import android.widget.Switch
import android.widget.TextView
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf

class SettingsAndLogTest : AppTest() {
    @Test
    fun `settings are shown and kept`() {
        restart()
        val activity = launch().get()
        activity.show(Screens.SETTINGS)
        val runtimes = activity.findViewById<RadioGroup>(R.id.settings_runtimes)
        assertEquals(
            listOf("Automatic: the first that works", "ONNX Runtime", "ExecuTorch"),
            (0 until runtimes.childCount).map { (runtimes.getChildAt(it) as TextView).text.toString() },
        )
        runtimes.getChildAt(2).performClick()
        activity.findViewById<RadioGroup>(R.id.settings_searches).getChildAt(1).performClick()
        activity.findViewById<Switch>(R.id.settings_keep_history).performClick()
        val next = Preferences(app)
        assertEquals("executorch", next.runtime)
        assertEquals(4, next.beamSize)
        assertFalse(next.keepsHistory)
        val again = launch().get().apply { show(Screens.SETTINGS) }.findViewById<RadioGroup>(R.id.settings_runtimes)
        assertEquals(again.getChildAt(2).id, again.checkedRadioButtonId)
    }

    @Test
    fun `figures are shown where a person wants them, from then on`() {
        restart(typing = null, figures = null)
        assertFalse(services.preferences.showsFigures)
        assertTrue(services.preferences.translatesWhileTyping)
        val activity = launch().get()
        services.translate.edit("Good morning!")
        services.translate.translate()
        await("translation") { services.translate.job?.outcome != null }
        activity.show(Screens.MODELS)
        activity.show(Screens.TRANSLATE)
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertFalse(activity.isShown(R.id.status))
        assertFalse(activity.isShown(R.id.count))
        activity.show(Screens.SETTINGS)
        activity.findViewById<Switch>(R.id.settings_figures).performClick()
        assertTrue(activity.text(R.id.settings_typing_text), "1,000 characters" in activity.text(R.id.settings_typing_text))
        activity.findViewById<Switch>(R.id.settings_typing).performClick()
        activity.goBack()
        val figures = activity.text(R.id.status)
        assertTrue(figures, Regex("ONNX Runtime 1\\.0 · \\d+ threads? · \\d+ tokens · .* ms.* · .* M Mult-Adds").matches(figures))
        assertTrue(activity.isShown(R.id.count))
        restart(typing = null, figures = null)
        assertTrue("remembered", services.preferences.showsFigures)
        assertFalse("remembered", services.preferences.translatesWhileTyping)
    }

    @Test
    fun `threads are chosen among those that the device has`() {
        assertEquals(1..1, Preferences(app, processors = 1).threadChoices)
        assertEquals(1, Preferences(app, processors = 1).threads)
        assertEquals(4, Preferences(app, processors = 8).threads)
        assertEquals(1..8, Preferences(app, processors = 20).threadChoices)
        val bar = launch().get().apply { show(Screens.SETTINGS) }.findViewById<SeekBar>(R.id.settings_threads)
        assertEquals(services.preferences.threadChoices.last - 1, bar.max)
        assertEquals(services.preferences.threads - 1, bar.progress)
        Preferences(app, processors = 8).threads = 8
        assertEquals("more than there are now", 1, Preferences(app, processors = 2).threads)
    }

    @Test
    fun `the log is a ring, told oldest first`() {
        val log = EventLog(capacity = 3, now = { 0 })
        for (number in 1..5) log.info("event $number")
        assertEquals(listOf("event 3", "event 4", "event 5"), log.text().lines().map { it.substringAfter(" I ") })
        log.failure("import", IllegalStateException("outer", IllegalArgumentException("inner")))
        val last = log.text().lines().last()
        assertTrue(last, last.endsWith("E import: IllegalStateException: outer; caused by IllegalArgumentException: inner"))
    }

    @Test
    fun `the log screen copies and shares`() {
        restart()
        val activity = launch().get()
        activity.show(Screens.LOG)
        assertTrue("tatoeba-en-de" in activity.text(R.id.log_lines))
        activity.screen!!.onAction(R.id.action_copy_log)
        val copied = app.getSystemService(ClipboardManager::class.java).primaryClip?.getItemAt(0)?.text.toString()
        assertTrue(copied, copied.startsWith("Lite NLP 0.1.0 on "))
        activity.screen!!.onAction(R.id.action_share_log)
        assertEquals(Intent.ACTION_CHOOSER, shadowOf(activity).nextStartedActivity.action)
    }
}
