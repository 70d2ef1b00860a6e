package dev.litenlp.app

import android.app.AlertDialog
import android.view.View
import android.widget.EditText
import android.widget.ListView
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.shadows.ShadowAlertDialog
import org.robolectric.shadows.ShadowToast
import java.io.File

class FavouritesTest : AppTest() {
    private val file get() = File(app.filesDir, "favourites.jsonl")

    private fun MainActivity.translate(text: String) {
        findViewById<EditText>(R.id.input).setText(text)
        click(R.id.translate)
        await("end of the translation") { services.translate.job?.outcome != null }
    }

    private fun MainActivity.star() = findViewById<View>(R.id.favourite)

    private fun sources() = services.favourites.entries.map { it.source }

    private fun awaitFile() = await("writing") { services.files.isIdle }

    @Test
    fun `the star keeps a translation, and another tap takes it out`() {
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        assertEquals("Add to favourites", activity.star().contentDescription)
        activity.click(R.id.favourite)
        await("favourite") { activity.star().isSelected }
        assertEquals("Remove from favourites", activity.star().contentDescription)
        val kept = services.favourites.entries.single()
        assertEquals(listOf("Good morning!", "Guten Morgen!", "en" to "de"), listOf(kept.source, kept.target, kept.languages))
        activity.translate("Where is the nearest train station?")
        assertFalse("of another translation", activity.star().isSelected)
        activity.translate("Good morning!")
        assertTrue(activity.star().isSelected)
        activity.click(R.id.favourite)
        assertFalse(activity.star().isSelected)
        assertEquals(emptyList<String>(), sources())
    }

    @Test
    fun `favourites survive the process, the history being off and deleted`() {
        restart()
        services.preferences.keepsHistory = false
        launch().get().apply {
            translate("Good morning!")
            click(R.id.favourite)
        }
        services.history.clear()
        awaitFile()
        restart()
        services.favourites.load()
        await("favourites") { sources() == listOf("Good morning!") }
    }

    @Test
    fun `the list takes one back, removes one, and removes all`() {
        restart()
        for (text in listOf("Good morning!", "one", "two")) {
            services.favourites.add(KeptTranslation(1_790_000_000_000, text, KNOWN[text] ?: text, "en" to "de", "onnx", 84.0))
        }
        awaitFile()
        val activity = launch().get()
        activity.show(Screens.FAVOURITES)
        val list = activity.findViewById<ListView>(R.id.history_list)
        await("rows") { list.childCount == 3 }
        list.getChildAt(0).findViewById<View>(R.id.row_delete).performClick()
        assertEquals(listOf("one", "Good morning!"), sources())
        await("rows") { list.childCount == 2 }
        list.performItemClick(list.getChildAt(1), 1, 1)
        idle()
        assertEquals(Screens.TRANSLATE, activity.shown)
        assertEquals("Good morning!" to "Guten Morgen!", activity.text(R.id.input) to activity.text(R.id.output))
        assertTrue(activity.star().isSelected)
        activity.show(Screens.FAVOURITES)
        assertTrue(activity.screen!!.onAction(R.id.action_clear_history))
        (ShadowAlertDialog.getLatestDialog() as AlertDialog).getButton(AlertDialog.BUTTON_POSITIVE).performClick()
        idle()
        assertEquals("Mark a translation with the star to find it here.", activity.text(R.id.history_empty))
        awaitFile()
        assertEquals("", file.readText())
    }

    @Test
    fun `none goes for a new one - a full list says so`() {
        restart()
        services.favourites.add(KeptTranslation(1_790_000_000_000, "x".repeat(3_999_990), "y", null, "", 0.0))
        val activity = launch().get()
        activity.translate("Good morning!")
        activity.click(R.id.favourite)
        assertEquals("There is no room for more favourites. Remove some first.", ShadowToast.getTextOfLatestToast())
        assertEquals(1, services.favourites.entries.size)
    }

    @Test
    fun `a write that is cut off leaves the old list`() {
        restart()
        services.favourites.add(KeptTranslation(1_790_000_000_000, "kept", "behalten", "en" to "de", "onnx", 84.0))
        // What is added before the file has been read is written after that.
        await("favourite") { sources() == listOf("kept") }
        awaitFile()
        // As a process leaves it that ends while it writes: the new file is not whole, and the old one is still in place.
        File(app.filesDir, "favourites.jsonl.new").writeText("{\"time\": 17, \"sour")
        restart()
        services.favourites.load()
        await("favourites") { sources() == listOf("kept") }
    }

    @Test
    fun `a file that cannot be read is left as it is`() {
        restart()
        File(file, "of-another-kind").apply { parentFile?.mkdirs() }.writeText("not ours")
        services.favourites.add(KeptTranslation(1_790_000_000_000, "new", "neu", "en" to "de", "onnx", 84.0))
        await("favourites") { sources() == listOf("new") }
        awaitFile()
        assertEquals("not ours", File(file, "of-another-kind").readText())
        assertTrue(services.log.text(), "favourites" in services.log.text())
    }

    @Test
    fun `there is no star for a part of a translation`() {
        restart()
        val permits = java.util.concurrent.Semaphore(0)
        onnx.permits = permits
        val activity = launch().get()
        activity.findViewById<EditText>(R.id.input).setText("Where is the nearest train station?")
        activity.click(R.id.translate)
        permits.release(3)
        await("first words") { activity.text(R.id.output).isNotEmpty() }
        activity.click(R.id.stop)
        permits.release(1)
        await("end") { services.translate.job?.outcome != null }
        assertTrue(activity.isShown(R.id.copy))
        assertFalse(activity.isShown(R.id.favourite))
    }
}
