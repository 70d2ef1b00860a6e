package dev.litenlp.app

import android.os.Build
import android.widget.EditText
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.annotation.Config
import java.io.File

/** The oldest system that the app runs on: what is newer must not be asked for there. */
@Config(sdk = [26])
class OldestSystemTest : AppTest() {
    @Test
    fun `translates, imports and shows every screen`() {
        assertEquals(26, Build.VERSION.SDK_INT)
        restart()
        val activity = launch().get()
        activity.findViewById<EditText>(R.id.input).setText("Good morning!")
        activity.click(R.id.translate)
        await("translation") { activity.text(R.id.output) == "Guten Morgen!" }
        activity.click(R.id.copy)
        for (entry in Screens.all) {
            activity.show(entry.id)
            idle()
            assertEquals(entry.id, activity.shown)
        }
        services.models.import("holiday.zip") { TestBundles.zip(name = "holiday-en-de").inputStream() }
        await("import") { services.models.models.size == 2 }
        activity.show(Screens.SETTINGS)
        @Suppress("DEPRECATION")
        activity.onBackPressed()
        assertTrue("the way back", activity.shown != Screens.SETTINGS)
    }

    @Test
    fun `what an interrupted write set aside is read`() {
        restart()
        services.translate.edit("Good morning!")
        services.translate.save()
        services.favourites.add(KeptTranslation(1_790_000_000_000, "Good morning!", "Guten Morgen!", "en" to "de", "onnx", 84.0))
        await("writing") { services.files.isIdle && File(app.filesDir, "favourites.jsonl").exists() }
        for (name in listOf("draft.json", "favourites.jsonl")) {
            assertTrue(name, File(app.filesDir, name).renameTo(File(app.filesDir, "$name.bak")))
        }
        restart()
        assertEquals("Good morning!", services.translate.input)
        services.favourites.load()
        await("favourites") { services.favourites.entries.map { it.source } == listOf("Good morning!") }
    }
}
