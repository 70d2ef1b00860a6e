package dev.litenlp.app

import android.app.AlertDialog
import android.view.View
import android.widget.ListView
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.history.TranslationList
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.shadows.ShadowAlertDialog
import java.io.File

class HistoryTest : AppTest() {
    private val file get() = File(app.filesDir, "history.jsonl")

    private fun entry(source: String, target: String = "T $source") = KeptTranslation(1_790_000_000_000, source, target, "en" to "de", "onnx", 84.0)

    private fun history(maxEntries: Int = 200, maxChars: Int = 1_000_000) =
        TranslationList(file, services.log, services.files, services.main, maxEntries, maxChars)

    private fun TranslationList.loaded(): TranslationList {
        load()
        await("history") { services.files.isIdle && !isLoading }
        return this
    }

    private fun sources(history: TranslationList) = history.entries.map { it.source }

    @Test
    fun `keeps entries in a file, the newest first`() {
        val first = history().loaded()
        first.add(entry("one \u2028\n\"two\" \uD83D\uDE00"))
        first.add(entry("three"))
        await("writing") { services.files.isIdle }
        val second = history().loaded()
        assertEquals(listOf("three", "one \u2028\n\"two\" \uD83D\uDE00"), sources(second))
        assertEquals("T three", second.entries[0].target)
        assertEquals("en" to "de", second.entries[0].languages)
        assertEquals(84.0, second.entries[0].totalMs, 0.0)
        assertEquals(2, file.readLines().size)
    }

    @Test
    fun `is bounded by entries and by characters`() {
        val few = history(maxEntries = 3).loaded()
        for (number in 1..5) few.add(entry("$number"))
        assertEquals(listOf("5", "4", "3"), sources(few))
        val short = history(maxChars = 30).loaded()
        short.add(entry("0123456789", "0123456789"))
        short.add(entry("abc", "def"))
        short.add(entry("0123456789", "9876543210"))
        assertEquals(listOf("0123456789", "abc"), sources(short))
    }

    @Test
    fun `the same translation again moves to the front`() {
        val history = history().loaded()
        for (source in listOf("a", "b", "a")) history.add(entry(source))
        assertEquals(listOf("a", "b"), sources(history))
    }

    @Test
    fun `what is added before the file is read is not lost`() {
        history().loaded().add(entry("old"))
        await("writing") { services.files.isIdle }
        val history = history()
        history.add(entry("new"))
        await("history") { history.entries.size == 2 }
        assertEquals(listOf("new", "old"), sources(history))
    }

    @Test
    fun `damaged lines are left out and the rest stays`() {
        history().loaded().add(entry("sound"))
        await("writing") { services.files.isIdle }
        file.appendText("{\"time\": 3, \"sou\nnonsense\n{}\n")
        assertEquals(listOf("sound"), sources(history().loaded()))
        assertTrue("history" in services.log.text())
    }

    @Test
    fun `the screen lists, opens, deletes and clears`() {
        restart()
        for (source in listOf("first", "second", "third")) services.history.add(entry(source))
        val activity = launch().get()
        activity.show(Screens.HISTORY)
        val list = activity.findViewById<ListView>(R.id.history_list)
        await("rows") { list.childCount == 3 }
        assertEquals(listOf("third", "T third"), shownTexts(list.getChildAt(0)).take(2))
        list.getChildAt(1).findViewById<View>(R.id.row_delete).performClick()
        await("deletion") { list.childCount == 2 }
        assertEquals(listOf("third", "first"), sources(services.history))
        list.performItemClick(list.getChildAt(1), 1, 1)
        idle()
        assertEquals(Screens.TRANSLATE, activity.shown)
        assertEquals("first", activity.text(R.id.input))
        assertEquals("T first", activity.text(R.id.output))
        activity.show(Screens.HISTORY)
        clear(activity)
        await("clearing") { activity.isShown(R.id.history_empty) }
        await("writing") { services.files.isIdle }
        assertEquals("", file.readText())
    }

    @Test
    fun `the question before all are deleted survives a rotation`() {
        restart()
        services.history.add(entry("first"))
        val controller = launch()
        controller.get().show(Screens.HISTORY)
        await("history") { services.history.entries.size == 1 }
        controller.get().screen!!.onAction(R.id.action_clear_history)
        fun dialog() = ShadowAlertDialog.getLatestDialog() as AlertDialog
        val first = dialog()
        controller.recreate().visible()
        idle()
        assertFalse("no window of an activity that is gone", first.isShowing)
        assertTrue(dialog() !== first && dialog().isShowing)
        dialog().cancel()
        idle()
        controller.pause().stop().restart().start().resume()
        assertFalse("closed by a person", dialog().isShowing)
        clear(controller.get())
        await("clearing") { services.history.entries.isEmpty() }
        controller.recreate().visible()
        assertFalse("answered", dialog().isShowing)
    }

    private fun clear(activity: MainActivity) {
        assertTrue(activity.screen!!.onAction(R.id.action_clear_history))
        (ShadowAlertDialog.getLatestDialog() as AlertDialog).getButton(AlertDialog.BUTTON_POSITIVE).performClick()
    }

    @Test
    fun `nothing is kept when a person does not want it`() {
        restart()
        services.preferences.keepsHistory = false
        services.translate.edit("Good morning!")
        services.translate.translate()
        await("translation") { services.translate.job?.outcome != null }
        await("threads") { services.files.isIdle }
        assertFalse(file.exists())
        val activity = launch().get()
        activity.show(Screens.HISTORY)
        assertEquals("The history is off. It can be switched on in the settings.", activity.text(R.id.history_empty))
    }
}
