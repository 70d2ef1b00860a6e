package dev.litenlp.app.speech

import android.content.Context
import android.os.Bundle
import android.os.Handler
import android.speech.tts.TextToSpeech
import android.speech.tts.UtteranceProgressListener
import android.speech.tts.Voice
import dev.litenlp.app.Changes
import dev.litenlp.app.EventLog
import dev.litenlp.app.Sentences
import java.util.Locale

/**
 * Reads texts aloud by the speech engine of the system, which is another app, and only with voices that need no network.
 *
 * For the main thread. The engine is started with the first text and given back by [release].
 */
class Speaker(private val context: Context, private val log: EventLog, private val main: Handler) {
    /** Why a text is not read. */
    enum class Problem { NO_ENGINE, NO_LANGUAGE, NO_OFFLINE_VOICE, FAILED }

    /** A text that waits for the engine. */
    private class Request(val text: String, val language: String, val onProblem: (Problem) -> Unit)

    private var engine: TextToSpeech? = null
    private var isReady = false
    private var request: Request? = null
    private var lastUtterance = ""
    private var count = 0

    /** Announces changes of [isSpeaking]. */
    val changes = Changes()

    /** Whether a text is read, or will be once the engine has started. */
    var isSpeaking = false
        private set

    /**
     * Reads a text.
     *
     * @param language its code
     * @param onProblem told why it is not read; nothing is read then
     */
    fun speak(text: String, language: String, onProblem: (Problem) -> Unit) {
        stop()
        request = Request(text, language, onProblem)
        setSpeaking(true)
        if (isReady) return begin()
        if (engine != null) return
        // Without any engine the listener is called before the constructor returns: not handled until it has.
        engine = TextToSpeech(context.applicationContext) { status -> main.post { onStarted(status) } }
    }

    /** Ends the reading. */
    fun stop() {
        request = null
        lastUtterance = ""
        if (isReady) engine?.stop()
        setSpeaking(false)
    }

    /** Gives the engine back; a later [speak] starts it again. */
    fun release() {
        stop()
        engine?.shutdown()
        engine = null
        isReady = false
    }

    private fun onStarted(status: Int) {
        val engine = engine ?: return
        if (status != TextToSpeech.SUCCESS) {
            fail(Problem.NO_ENGINE)
            return release()
        }
        isReady = true
        engine.setOnUtteranceProgressListener(Progress())
        begin()
    }

    private fun begin() {
        val request = request ?: return
        val engine = engine ?: return
        val problem = choose(engine, Sentences.localeOf(request.language)) ?: read(engine, request.text)
        if (problem != null) fail(problem)
    }

    /** Makes the engine speak a language, by a voice on this device. @return why it cannot */
    private fun choose(engine: TextToSpeech, language: Locale): Problem? {
        when (engine.setLanguage(language)) {
            TextToSpeech.LANG_MISSING_DATA, TextToSpeech.LANG_NOT_SUPPORTED -> return Problem.NO_LANGUAGE
        }
        // An engine without voices has no way to say that it needs the network.
        val voice = engine.voice ?: return null
        if (isLocal(voice)) return null
        val local = engine.voices.orEmpty().filter { it.locale.language == language.language && isLocal(it) }
        val best = local.maxByOrNull { it.quality } ?: return Problem.NO_OFFLINE_VOICE
        return if (engine.setVoice(best) == TextToSpeech.SUCCESS) null else Problem.NO_OFFLINE_VOICE
    }

    private fun isLocal(voice: Voice): Boolean =
        !voice.isNetworkConnectionRequired && TextToSpeech.Engine.KEY_FEATURE_NOT_INSTALLED !in voice.features.orEmpty()

    private fun read(engine: TextToSpeech, text: String): Problem? {
        val pieces = split(text, TextToSpeech.getMaxSpeechInputLength())
        val names = pieces.map { "text ${++count}" }
        lastUtterance = names.lastOrNull() ?: return Problem.FAILED
        for ((piece, name) in pieces.zip(names)) {
            if (engine.speak(piece, TextToSpeech.QUEUE_ADD, Bundle(), name) != TextToSpeech.SUCCESS) return Problem.FAILED
        }
        return null
    }

    private fun fail(problem: Problem) {
        log.info("speech: $problem")
        val told = request
        stop()
        told?.onProblem?.invoke(problem)
    }

    private fun setSpeaking(speaking: Boolean) {
        if (speaking == isSpeaking) return
        isSpeaking = speaking
        changes.announce()
    }

    /** Called on a thread of the engine's. */
    private inner class Progress : UtteranceProgressListener() {
        override fun onStart(name: String?) = Unit

        override fun onDone(name: String?) {
            main.post { if (name == lastUtterance) stop() }
        }

        @Deprecated("Of the framework, which calls this where an engine gives no code")
        override fun onError(name: String?) {
            main.post { if (request != null) fail(Problem.FAILED) }
        }
    }

    companion object {
        /** Pieces of a text that an engine takes, cut after lines, sentences or words where it can. */
        internal fun split(text: String, most: Int): List<String> {
            val pieces = ArrayList<String>()
            var rest = text.trim()
            while (rest.length > most) {
                val head = rest.substring(0, most)
                val ends = listOf("\n", ". ", " ").map { head.lastIndexOf(it) + it.length }
                // A cut in the first half would be for a heading alone.
                val end = ends.firstOrNull { it > most / 2 } ?: if (head.last().isHighSurrogate()) most - 1 else most
                pieces += rest.substring(0, end).trim()
                rest = rest.substring(end).trim()
            }
            return (pieces + rest).filter { it.isNotEmpty() }
        }
    }
}
