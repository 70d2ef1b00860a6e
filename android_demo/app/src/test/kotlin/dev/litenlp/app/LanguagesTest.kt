package dev.litenlp.app

import android.app.AlertDialog
import android.content.DialogInterface
import android.content.res.Configuration
import android.view.View
import android.widget.EditText
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowAlertDialog
import org.robolectric.shadows.ShadowToast
import java.util.Locale
import java.util.concurrent.Semaphore

/** Choice of the model by its languages, and their exchange. */
class LanguagesTest : AppTest() {
    private val both = FakeEngineFactory("onnx", KNOWN + KNOWN.entries.associate { (text, translation) -> translation to text })

    private fun bundle(name: String, source: String, target: String) = TestBundles.zip(
        name = name,
        change = { it.put("languages", JSONObject().put("src", source).put("tgt", target)) },
    )

    private fun install(name: String, source: String, target: String) {
        val before = services.models.models.size
        val selected = services.models.selected
        services.models.import("$name.zip") { bundle(name, source, target).inputStream() }
        await("import of $name") { services.models.models.size == before + 1 && services.models.installing == null }
        selected?.let { services.models.select(it) }
    }

    private fun begin(): MainActivity {
        restart(listOf(both), typing = null, figures = null)
        return launch().get()
    }

    private fun MainActivity.type(text: String) = findViewById<EditText>(R.id.input).setText(text)

    private fun MainActivity.languages() = text(R.id.source_language) to text(R.id.target_language)

    private fun awaitOutput(activity: MainActivity, text: String) = await(text) {
        activity.text(R.id.output) == text && services.translate.job?.outcome != null
    }

    private fun offered(): List<String> {
        val adapter = dialog.listView.adapter
        return (0 until adapter.count).map { adapter.getItem(it).toString() }
    }

    private val dialog get() = ShadowAlertDialog.getLatestDialog() as AlertDialog

    @Test
    fun `a tap on a language offers the installed models and takes the chosen one`() {
        val activity = begin()
        install("tatoeba-de-en", "de", "en")
        install("holiday", "fr", "en")
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.click(R.id.target_language)
        val names = offered()
        assertEquals(listOf("English → German", "French → English", "German → English"), names.map { it.lines()[0] })
        assertTrue(names[0], names[0].lines()[1].startsWith("tatoeba-en-de · "))
        assertEquals("that in use is marked", 0, dialog.listView.checkedItemPosition)
        shadowOf(dialog).clickOnItem(1)
        assertFalse(dialog.isShowing)
        assertEquals("French" to "English", activity.languages())
        assertEquals("holiday", services.models.selected?.name)
        await("the text is translated anew") { services.translate.job?.outcome != null && !services.translate.needsTranslation }
        assertEquals("fr" to "en", services.translate.languages)
    }

    @Test
    fun `the choice says what it is to TalkBack, and leads to the models`() {
        val activity = begin()
        assertEquals("Translate from English. Choose languages.", activity.findViewById<View>(R.id.source_language).contentDescription)
        assertEquals("Translate to German. Choose languages.", activity.findViewById<View>(R.id.target_language).contentDescription)
        activity.click(R.id.source_language)
        dialog.getButton(DialogInterface.BUTTON_NEUTRAL).performClick()
        idle()
        assertEquals(Screens.MODELS, activity.shown)
    }

    @Test
    fun `the open choice survives a rotation`() {
        restart(listOf(both))
        val controller = launch()
        controller.get().click(R.id.source_language)
        val first = dialog
        RuntimeEnvironment.setQualifiers("+land")
        controller.configurationChange(Configuration(app.resources.configuration))
        idle()
        assertFalse("no window of an activity that is gone", first.isShowing)
        assertTrue(dialog !== first && dialog.isShowing)
        dialog.cancel()
        idle()
        controller.pause().stop().restart().start().resume()
        assertFalse("closed by a person", dialog.isShowing)
    }

    @Test
    fun `swapping translates the translation back by the other model`() {
        val activity = begin()
        install("tatoeba-de-en", "de", "en")
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        assertEquals("Swap languages", activity.findViewById<View>(R.id.swap).contentDescription)
        activity.click(R.id.swap)
        assertEquals("German" to "English", activity.languages())
        assertEquals("Guten Morgen!", activity.text(R.id.input))
        awaitOutput(activity, "Good morning!")
        assertEquals("tatoeba-de-en", services.models.selected?.name)
        await("the first text is in the history") { services.history.entries.any { it.source == "Good morning!" } }
        activity.click(R.id.swap)
        assertEquals("English" to "German", activity.languages())
        awaitOutput(activity, "Guten Morgen!")
    }

    @Test
    fun `swapping without a translation keeps the text and changes the languages`() {
        val activity = begin()
        install("tatoeba-de-en", "de", "en")
        activity.click(R.id.swap)
        assertEquals("German" to "English", activity.languages())
        assertEquals("", activity.text(R.id.input))
        assertNull(services.translate.job)
    }

    @Test
    fun `swapping keeps a text that was changed after its translation`() {
        val activity = begin()
        install("tatoeba-de-en", "de", "en")
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.type("Good morning, everyone!")
        activity.click(R.id.swap)
        assertEquals("German" to "English", activity.languages())
        assertEquals("Good morning, everyone!", activity.text(R.id.input))
        awaitOutput(activity, "Good morning, everyone!")
    }

    @Test
    fun `what was stopped is in the language of the model that began it`() {
        restart(listOf(both), typing = false)
        install("tatoeba-de-en", "de", "en")
        val session = services.translate
        session.replace("Guten Morgen!", TranslateSession.Reason.FROM_HISTORY, "Good morning!", "en" to "de")
        services.models.select(services.models.models.single { it.name == "tatoeba-de-en" })
        val permits = Semaphore(0)
        both.permits = permits
        val stopped = session.translate()
        permits.release(2)
        await("beginning") { stopped.partial.isNotEmpty() }
        stopped.cancel()
        permits.release(1)
        await("end") { stopped.outcome is Outcome.Cancelled }
        assertEquals("de" to "en", session.languages)
        services.models.select(services.models.models.first())
        assertEquals("de" to "en", session.languages)
        session.translate(isTyped = true)
        assertEquals("still that of the first model, until there is more", stopped.partial, session.output)
        assertEquals("de" to "en", session.languages)
        permits.release(100)
        await("end of the second") { session.job?.outcome is Outcome.Done }
        assertEquals("en" to "de", session.languages)
    }

    @Test
    fun `a language has a name however its code is written`() {
        val activity = begin()
        install("holiday", "en_US", "pt_BR")
        services.models.select(services.models.models.single { it.name == "holiday" })
        assertEquals("English" to "Portuguese", activity.languages())
        assertEquals(Locale.forLanguageTag("pt-BR"), Sentences.localeOf("pt_BR"))
        assertEquals("Portuguese", Sentences.languageName(app, "pt"))
        assertEquals("no code at all is its own name", "Plain words", Sentences.languageName(app, "plain words"))
    }

    @Test
    fun `without the other direction the button says what is missing`() {
        val activity = begin()
        install("holiday", "fr", "en")
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        val missing = "No installed model translates from German to English. Import one on the Models screen."
        val button = activity.findViewById<View>(R.id.swap)
        assertEquals("Swap languages. $missing", button.contentDescription)
        assertTrue("faint", button.alpha < 0.5f)
        activity.click(R.id.swap)
        assertEquals(missing, ShadowToast.getTextOfLatestToast())
        assertEquals("Good morning!", activity.text(R.id.input))
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        install("tatoeba-de-en", "de", "en")
        assertEquals("Swap languages", button.contentDescription)
        assertEquals(1f, button.alpha)
    }

    @Test
    fun `a model without languages is chosen by its name`() {
        val archive = TestBundles.zip(name = "words", change = { it.put("languages", JSONObject.NULL) })
        restart(listOf(both), mapOf("words.zip" to { archive.inputStream() }))
        val activity = launch().get()
        assertEquals("Text" to "Translation", activity.languages())
        activity.click(R.id.swap)
        assertEquals("This model does not say its languages.", ShadowToast.getTextOfLatestToast())
        activity.click(R.id.source_language)
        assertEquals("words", offered().single().lines()[0])
    }

    @Test
    fun `a kept translation comes back with the model of its languages`() {
        val activity = begin()
        install("tatoeba-de-en", "de", "en")
        activity.type("Good morning!")
        awaitOutput(activity, "Guten Morgen!")
        activity.click(R.id.favourite)
        activity.click(R.id.swap)
        awaitOutput(activity, "Good morning!")
        await("kept") { services.favourites.entries.size == 1 }
        activity.reopen(services.favourites.entries.single())
        assertEquals("en" to "de", services.models.selected?.languages)
        assertFalse("its translation is known", services.translate.needsTranslation)
    }
}
