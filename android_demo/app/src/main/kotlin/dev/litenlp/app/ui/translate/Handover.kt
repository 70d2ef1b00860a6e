package dev.litenlp.app.ui.translate

import android.content.Context
import android.widget.Toast
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.speech.Speaker
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.MainActivity

/**
 * What becomes of a translation: copied, shared, read aloud, or a favourite. Whoever does that has finished the text.
 *
 * @param language gives the code of the translation's language, null if it is not known
 */
class Handover(private val activity: MainActivity, private val card: OutputCard, private val language: () -> String?) {
    private val context: Context = activity
    private val session: TranslateSession get() = activity.services.translate
    private val speaker: Speaker get() = activity.speaker
    private val favourites get() = activity.services.favourites
    private val drawAll: () -> Unit = ::draw

    /** Observes what [draw] shows. */
    fun start() {
        speaker.changes.observe(drawAll)
        favourites.changes.observe(drawAll)
        favourites.load()
    }

    /** Ends what [start] began, and the reading: nobody sees the text any more. */
    fun stop() {
        speaker.changes.ignore(drawAll)
        favourites.changes.ignore(drawAll)
        speaker.stop()
    }

    fun draw() {
        card.drawSpeaking(speaker.isSpeaking)
        card.drawFavourite(favourites.find(session.input, session.output) != null)
    }

    fun copy() {
        session.settle()
        Clipboard.copy(context, session.output, R.string.copied)
    }

    fun share() {
        session.settle()
        Clipboard.share(activity, session.output)
    }

    /** Reads the translation aloud, or ends that. */
    fun speak() {
        if (speaker.isSpeaking) return speaker.stop()
        session.settle()
        val code = language() ?: return
        speaker.speak(session.output, code) { say(it, code) }
    }

    private fun say(problem: Speaker.Problem, code: String) {
        val message = when (problem) {
            Speaker.Problem.NO_ENGINE -> R.string.speak_no_engine
            Speaker.Problem.NO_LANGUAGE -> R.string.speak_no_language
            Speaker.Problem.NO_OFFLINE_VOICE -> R.string.speak_no_offline_voice
            Speaker.Problem.FAILED -> R.string.speak_failed
        }
        val text = context.getString(message, Sentences.languageName(context, code))
        Toast.makeText(context, text, Toast.LENGTH_LONG).show()
    }

    /** Makes the translation a favourite, or takes it out. */
    fun mark() {
        session.settle()
        val known = favourites.find(session.input, session.output)
        if (known != null) return favourites.remove(known)
        val done = session.job?.outcome as? Outcome.Done
        val entry = KeptTranslation(
            time = System.currentTimeMillis(),
            source = session.input,
            target = session.output,
            languages = session.languages ?: activity.services.models.selected?.languages,
            runtime = done?.runtime.orEmpty(),
            totalMs = done?.translation?.totalMs ?: 0.0,
        )
        if (favourites.hasRoomFor(entry)) favourites.add(entry) else Clipboard.say(context, R.string.favourites_full)
    }
}
