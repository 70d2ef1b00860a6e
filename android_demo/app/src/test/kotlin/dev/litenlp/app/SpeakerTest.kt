package dev.litenlp.app

import android.os.Looper
import android.speech.tts.TextToSpeech
import android.speech.tts.Voice
import android.view.View
import android.widget.EditText
import dev.litenlp.app.speech.Speaker
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowTextToSpeech
import org.robolectric.shadows.ShadowToast
import java.util.Locale

/** Reading aloud by the system's speech engine. */
class SpeakerTest : AppTest() {
    private val engine: ShadowTextToSpeech? get() = ShadowTextToSpeech.getLastTextToSpeechInstance()?.let { shadowOf(it) }

    private fun translated(): MainActivity {
        restart()
        val activity = launch().get()
        activity.findViewById<EditText>(R.id.input).setText("Good morning!")
        activity.click(R.id.translate)
        await("translation") { activity.text(R.id.output) == "Guten Morgen!" && services.translate.job?.outcome != null }
        return activity
    }

    /** The engine answers that it is there, or that it is not. */
    private fun answer(status: Int) {
        checkNotNull(engine).onInitListener.onInit(status)
        shadowOf(Looper.getMainLooper()).runOneTask()
    }

    private fun voice(name: String, language: String, needsNetwork: Boolean, features: Set<String> = emptySet()) =
        Voice(name, Locale.forLanguageTag(language), Voice.QUALITY_NORMAL, Voice.LATENCY_NORMAL, needsNetwork, features)

    private fun MainActivity.speakButton() = findViewById<View>(R.id.speak).contentDescription

    @Test
    fun `reads the translation in its language, and can be stopped`() {
        ShadowTextToSpeech.addLanguageAvailability(Locale.GERMAN)
        val activity = translated()
        assertNull("no engine is started before it is wanted", engine)
        assertEquals("Read the translation aloud", activity.speakButton())
        activity.click(R.id.speak)
        assertEquals("Stop reading", activity.speakButton())
        answer(TextToSpeech.SUCCESS)
        assertEquals(listOf("Guten Morgen!"), engine?.spokenTextList?.toList())
        assertEquals("de", engine?.currentLanguage?.language)
        await("end of the reading") { activity.speakButton() == "Read the translation aloud" }
        // One after the other, before the engine is through.
        repeat(2) { activity.findViewById<View>(R.id.speak).performClick() }
        assertTrue(checkNotNull(engine).isStopped)
        assertEquals("Read the translation aloud", activity.speakButton())
        assertEquals("one engine for all", 2, engine?.spokenTextList?.size)
    }

    @Test
    fun `without an engine it says so, and looks again the next time`() {
        val activity = translated()
        activity.click(R.id.speak)
        val first = checkNotNull(engine)
        answer(TextToSpeech.ERROR)
        assertEquals("This device has no app that reads texts aloud.", ShadowToast.getTextOfLatestToast())
        assertEquals("Read the translation aloud", activity.speakButton())
        assertTrue("given back", first.isShutdown)
        ShadowTextToSpeech.addLanguageAvailability(Locale.GERMAN)
        activity.click(R.id.speak)
        assertTrue(engine !== first)
        answer(TextToSpeech.SUCCESS)
        assertEquals("Guten Morgen!", engine?.lastSpokenText)
    }

    @Test
    fun `a language that the engine lacks is named`() {
        val activity = translated()
        activity.click(R.id.speak)
        answer(TextToSpeech.SUCCESS)
        val expected = "The speech engine of this device has no voice for German. Install one in the system settings."
        assertEquals(expected, ShadowToast.getTextOfLatestToast())
        assertNull(engine?.lastSpokenText)
        assertEquals("Read the translation aloud", activity.speakButton())
    }

    @Test
    fun `a voice that needs the network gives way to one that does not`() {
        ShadowTextToSpeech.addLanguageAvailability(Locale.GERMAN)
        ShadowTextToSpeech.addVoice(voice("cloud", "de", needsNetwork = true))
        val activity = translated()
        activity.click(R.id.speak)
        val shadow = checkNotNull(engine)
        ShadowTextToSpeech.getLastTextToSpeechInstance().voice = voice("cloud", "de", needsNetwork = true)
        answer(TextToSpeech.SUCCESS)
        val refused = "The voices for German on this device need the network, so that the text was not handed over."
        assertEquals(refused, ShadowToast.getTextOfLatestToast())
        assertNull(shadow.lastSpokenText)
        ShadowTextToSpeech.addVoice(voice("absent", "de", needsNetwork = false, setOf(TextToSpeech.Engine.KEY_FEATURE_NOT_INSTALLED)))
        ShadowTextToSpeech.addVoice(voice("english", "en", needsNetwork = false))
        ShadowTextToSpeech.addVoice(voice("local", "de", needsNetwork = false))
        activity.click(R.id.speak)
        assertEquals("local", shadow.currentVoice.name)
        assertEquals("Guten Morgen!", shadow.lastSpokenText)
    }

    @Test
    fun `leaving the screen ends the reading, and the window gives the engine back`() {
        ShadowTextToSpeech.addLanguageAvailability(Locale.GERMAN)
        restart()
        val controller = launch()
        services.translate.replace("Good morning!", dev.litenlp.app.inference.TranslateSession.Reason.SHARED, "Guten Morgen!")
        controller.get().show(Screens.MODELS)
        controller.get().show(Screens.TRANSLATE)
        controller.get().click(R.id.speak)
        answer(TextToSpeech.SUCCESS)
        val shadow = checkNotNull(engine)
        controller.get().show(Screens.MODELS)
        assertTrue(shadow.isStopped)
        assertFalse(shadow.isShutdown)
        controller.pause().stop().destroy()
        assertTrue(shadow.isShutdown)
    }

    @Test
    fun `a long text is read in pieces, none of which is longer than the engine takes`() {
        val text = "Erster Satz. Zweiter Satz!\n" + "Wort ".repeat(40) + "x".repeat(70) + "\uD83D\uDE00".repeat(40)
        val pieces = Speaker.split(text, 50)
        assertTrue("$pieces", pieces.all { it.length in 1..50 })
        assertEquals("Erster Satz. Zweiter Satz!", pieces.first())
        assertEquals(text.filterNot { it.isWhitespace() }, pieces.joinToString("").filterNot { it.isWhitespace() })
        assertTrue("no half characters", pieces.none { it.first().isLowSurrogate() || it.last().isHighSurrogate() })
        assertEquals(emptyList<String>(), Speaker.split(" \n ", 50))
    }
}
