package dev.litenlp.app

import android.content.ClipData
import android.content.ClipboardManager
import android.content.Intent
import android.net.Uri
import android.text.Spanned
import android.text.style.LocaleSpan
import android.widget.EditText
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.ui.IncomingText
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowToast
import java.util.concurrent.Semaphore

class TranslateScreenTest : AppTest() {
    private fun MainActivity.type(text: String) = findViewById<EditText>(R.id.input).setText(text)

    private fun MainActivity.notices(): List<String> = shownTexts(findViewById<LinearLayout>(R.id.notices))

    private fun MainActivity.translate(text: String) {
        type(text)
        click(R.id.translate)
        await("end of the translation") { services.translate.job?.outcome != null }
    }

    private val clipboard get() = app.getSystemService(ClipboardManager::class.java)

    @Test
    fun `translates and says what made it`() {
        restart()
        val activity = launch().get()
        activity.translate("Where is the nearest train station?")
        assertEquals("Wo ist der nächste Bahnhof?", activity.text(R.id.output))
        assertTrue(activity.text(R.id.status), activity.text(R.id.status).startsWith("ONNX Runtime 1.0 · "))
        assertEquals("English", activity.text(R.id.source_language))
        assertEquals("German", activity.text(R.id.target_language))
        val marked = activity.findViewById<TextView>(R.id.output).text as Spanned
        assertEquals("de", marked.getSpans(0, marked.length, LocaleSpan::class.java).single().locale?.language)
    }

    @Test
    fun `runs on the thread of its own with the chosen number of threads`() {
        restart()
        val chosen = services.preferences.threadChoices.last
        services.preferences.threads = chosen
        launch().get().translate("Good morning!")
        assertEquals(listOf("lite-nlp-inference"), onnx.stepThreads)
        assertEquals(listOf(chosen), onnx.threads)
    }

    @Test
    fun `shows the translation while it grows, and can be stopped`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val activity = launch().get()
        activity.type("Where is the nearest train station?")
        activity.click(R.id.translate)
        permits.release(3)
        await("first words") { activity.text(R.id.output).startsWith("Wo ist") }
        assertTrue("not yet at the end", activity.text(R.id.output).length < "Wo ist der nächste Bahnhof?".length)
        assertEquals("Translating…", activity.text(R.id.status))
        assertFalse(activity.isShown(R.id.copy))
        activity.click(R.id.stop)
        permits.release(1)
        await("end") { !activity.isShown(R.id.stop) }
        assertEquals("Stopped. This is what was there by then.", activity.text(R.id.status))
        assertTrue(activity.text(R.id.output).startsWith("Wo ist"))
        assertTrue("a part can be copied", activity.isShown(R.id.copy))
        services.history.load()
        await("history") { services.files.isIdle }
        assertEquals("no history of a part", 0, services.history.entries.size)
    }

    @Test
    fun `copies and shares the translation`() {
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        activity.click(R.id.copy)
        assertEquals("Guten Morgen!", clipboard.primaryClip?.getItemAt(0)?.text.toString())
        activity.click(R.id.share)
        val chooser = shadowOf(activity).nextStartedActivity
        assertEquals(Intent.ACTION_CHOOSER, chooser.action)
        val sent = chooser.getParcelableExtra(Intent.EXTRA_INTENT, Intent::class.java)
        assertEquals("Guten Morgen!", sent?.getStringExtra(Intent.EXTRA_TEXT))
    }

    @Test
    fun `a file on the clipboard is no text`() {
        restart()
        val activity = launch().get()
        clipboard.setPrimaryClip(ClipData.newRawUri("", Uri.parse("content://org.example.files/document/7")))
        activity.click(R.id.paste)
        assertEquals("", activity.text(R.id.input))
        assertEquals(app.getString(R.string.clipboard_empty), ShadowToast.getTextOfLatestToast())
    }

    @Test
    fun `pastes, clears, and takes back the clearing`() {
        restart()
        val activity = launch().get()
        clipboard.setPrimaryClip(ClipData.newPlainText("", "Good morning!"))
        activity.click(R.id.paste)
        assertEquals("Good morning!", activity.text(R.id.input))
        assertFalse("nothing was lost", activity.isShown(R.id.replaced_card))
        activity.click(R.id.clear)
        assertEquals("", activity.text(R.id.input))
        assertEquals("The text was cleared.", activity.text(R.id.replaced_text))
        activity.click(R.id.replaced_undo)
        assertEquals("Good morning!", activity.text(R.id.input))
        assertFalse(activity.isShown(R.id.replaced_card))
    }

    @Test
    fun `counts characters and tokens`() {
        restart()
        val activity = launch().get()
        activity.type("Good morning!\n\uD83D\uDE00")
        assertEquals("15 characters", activity.text(R.id.count))
        val tokenizer = services.models.selected!!.bundle.tokenizer()
        val expected = tokenizer.encode("Good morning!").size + tokenizer.encode("\uD83D\uDE00").size
        await("tokens") { activity.text(R.id.count).contains("token") }
        assertEquals("15 characters · $expected tokens", activity.text(R.id.count))
    }

    @Test
    fun `counts the tokens that are translated, however the text is spelled`() {
        restart()
        val activity = launch().get()
        activity.type("I don\u2019t think it\u2019s fine.\n \t\nHello   world \t ")
        await("tokens") { activity.text(R.id.count).contains("token") }
        val counted = activity.text(R.id.count)
        activity.click(R.id.translate)
        await("end of the translation") { services.translate.job?.outcome != null }
        val tokens = (services.translate.job?.outcome as Outcome.Done).translation.sourceTokens
        assertTrue(counted, counted.endsWith(" · $tokens tokens"))
    }

    @Test
    fun `a text of ten thousand words is translated whole`() {
        restart()
        val activity = launch().get()
        val words = "The children are playing in the garden today and tomorrow as well. "
        val text = List(10_000 / 12) { words }.joinToString("").trim()
        assertTrue(text.split(' ').size >= 9_990)
        activity.translate(text)
        // The engine repeats what it does not know: nothing may be missing, whatever the pieces.
        assertEquals(text, activity.text(R.id.output))
        assertTrue("$${activity.notices()}", activity.notices().single().contains("was too long for the model"))
        activity.click(R.id.copy)
    }

    @Test
    fun `emoji, mixed scripts and control characters come through`() {
        restart()
        val activity = launch().get()
        val text = "Tea \uD83C\uDF75\uD83D\uDC68\u200D\uD83D\uDC69\u200D\uD83D\uDC67 \u0434\u0430 \u0645\u0631\u062D\u0628\u0627 \u4F60\u597D\tx\u0001\u0007y"
        activity.translate(text)
        // A tab is a space for the model.
        assertEquals(text.replace('\t', ' '), activity.text(R.id.output))
    }

    @Test
    fun `an unfamiliar script is translated with a warning`() {
        restart()
        val activity = launch().get()
        activity.translate("\u0E2A\u0E27\u0E31\u0E2A\u0E14\u0E35\u0E0A\u0E32\u0E27\u0E42\u0E25\u0E01")
        assertTrue("${activity.notices()}", activity.notices().single().contains("of the letters in a line are unknown to this model"))
    }

    @Test
    fun `half a character is named as the problem`() {
        restart()
        val activity = launch().get()
        activity.translate("Good \uD83D morning")
        assertEquals("The text contains broken characters. Copy it again or retype it.", activity.text(R.id.error_text))
        assertEquals("Good \uD83D morning", activity.text(R.id.input))
    }

    @Test
    fun `a text beyond the bound is cut with a sentence, not within a character`() {
        restart()
        val activity = launch().get()
        val most = IncomingText.MAX_CHARS
        activity.type("x".repeat(most - 1) + "\uD83D\uDE00" + "y".repeat(500))
        assertEquals("x".repeat(most - 1), activity.text(R.id.input))
        assertEquals("Only the first 100,000 characters fit; the rest was left out.", activity.text(R.id.cut))
        assertEquals(most - 1, services.translate.input.length)
        activity.type("short")
        assertFalse(activity.isShown(R.id.cut))
    }

    @Test
    fun `blank text cannot be translated`() {
        restart()
        val activity = launch().get()
        activity.type(" \n\t ")
        assertFalse(activity.findViewById<TextView>(R.id.translate).isEnabled)
    }

    @Test
    fun `without one runtime the other translates and says so`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertTrue(activity.text(R.id.status).startsWith("ExecuTorch"))
        assertEquals(
            "ONNX Runtime could not be used, so ExecuTorch made this translation. " +
                "This runtime is not available on this device or for this model.",
            activity.notices().single(),
        )
        assertTrue("expected the library of ONNX Runtime, found none" in services.report())
    }

    @Test
    fun `a library that does not link counts as a missing runtime`() {
        onnx.openFailure = UnsatisfiedLinkError("no lite_nlp_ort")
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertTrue(activity.notices().single().startsWith("ONNX Runtime could not be used"))
    }

    @Test
    fun `a runtime that fails in the middle gives way to the other, and is not tried again`() {
        restart()
        onnx.stepFailure = LiteNlpException(Problem.RUNTIME_FAILED, "step 1: expected success, found code 1")
        val activity = launch().get()
        activity.translate("Good morning!")
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertEquals("the failed engine is closed", 0, onnx.openEngines.get())
        activity.translate("Where is the nearest train station?")
        assertEquals("Wo ist der nächste Bahnhof?", activity.text(R.id.output))
        assertEquals(1, onnx.opened.get())
    }

    @Test
    fun `memory that was short once is asked for again`() {
        restart()
        onnx.openFailure = OutOfMemoryError("no memory")
        val activity = launch().get()
        activity.translate("Good morning!")
        assertTrue(activity.text(R.id.status).startsWith("ExecuTorch"))
        onnx.openFailure = null
        activity.translate("Good morning!")
        assertTrue(activity.text(R.id.status).startsWith("ONNX Runtime"))
    }

    @Test
    fun `with no runtime at all there is a log to copy and another try`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        executorch.openFailure = LiteNlpException(Problem.RUNTIME_REFUSED, "model.pte: found error 20")
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        assertEquals("No runtime could translate", activity.text(R.id.error_title))
        val text = activity.text(R.id.error_text)
        assertTrue(text, "ONNX Runtime: This runtime is not available on this device or for this model." in text)
        assertTrue(text, "ExecuTorch: The runtime cannot load this model." in text)
        assertEquals("Good morning!", activity.text(R.id.input))
        activity.click(R.id.error_log)
        val log = clipboard.primaryClip?.getItemAt(0)?.text.toString()
        assertTrue(log, "model.pte: found error 20" in log && "expected the library of ONNX Runtime" in log)
        assertFalse("the log holds no texts", "Good morning" in log)
        executorch.openFailure = null
        activity.click(R.id.error_retry)
        await("translation") { activity.text(R.id.output) == "Guten Morgen!" }
        assertFalse(activity.isShown(R.id.error_card))
    }

    @Test
    fun `a chosen runtime is the one that translates`() {
        restart()
        services.preferences.runtime = "executorch"
        val activity = launch().get()
        activity.translate("Good morning!")
        assertTrue(activity.text(R.id.status).startsWith("ExecuTorch"))
        assertEquals(0, onnx.opened.get())
    }

    @Test
    fun `a bundle for one runtime is translated by it`() {
        val archives = mapOf("a.zip" to { TestBundles.zip(change = { it.put("onnx", org.json.JSONObject.NULL) }).inputStream() })
        restart(archives = archives)
        val activity = launch().get()
        activity.translate("Good morning!")
        assertTrue(activity.text(R.id.status).startsWith("ExecuTorch"))
        assertEquals(emptyList<String>(), activity.notices())
    }

    @Test
    fun `beam search finds the same sure words`() {
        restart()
        services.preferences.beamSize = 4
        val activity = launch().get()
        activity.translate("I would like a cup of coffee, please.")
        assertEquals("Ich hätte gerne eine Tasse Kaffee.", activity.text(R.id.output))
    }

    @Test
    fun `waits for the model at the first start`() {
        val gate = Semaphore(0)
        val slow = {
            gate.acquire()
            TestBundles.zip().inputStream()
        }
        app.restart(listOf(onnx), mapOf("tatoeba-en-de.zip" to slow))
        val activity = launch().get()
        activity.type("Good morning!")
        activity.click(R.id.translate)
        assertEquals("Waiting for the model…", activity.text(R.id.status))
        gate.release()
        await("translation") { activity.text(R.id.output) == "Guten Morgen!" }
    }

    @Test
    fun `without any model it says where to get one`() {
        restart(archives = emptyMap())
        val activity = launch().get()
        assertTrue(activity.isShown(R.id.no_model_card))
        assertEquals("Import a model to translate.", activity.text(R.id.no_model_text))
        activity.type("Good morning!")
        assertFalse(activity.findViewById<TextView>(R.id.translate).isEnabled)
        activity.click(R.id.no_model_open)
        assertEquals("models", activity.shown)
    }

    @Test
    fun `full storage at the first start is said, and another try helps`() {
        restart(freeBytes = 1000)
        val activity = launch().get()
        assertEquals("There is not enough free storage. Free some space and try again.", activity.text(R.id.no_model_text))
        assertNull(services.models.selected)
    }

    @Test
    fun `recent translations come back with a tap`() {
        restart()
        val activity = launch().get()
        activity.translate("Good morning!")
        activity.translate("Where is the nearest train station?")
        val recent = activity.findViewById<LinearLayout>(R.id.recent)
        await("history") { recent.childCount == 1 }
        recent.getChildAt(0).performClick()
        idle()
        assertEquals("Good morning!", activity.text(R.id.input))
        assertEquals("Guten Morgen!", activity.text(R.id.output))
        assertEquals("A kept text has replaced yours.", activity.text(R.id.replaced_text))
    }
}
