package dev.litenlp.app.inference

import android.util.AtomicFile
import dev.litenlp.app.EventLog
import dev.litenlp.app.isThere
import org.json.JSONException
import org.json.JSONObject
import java.io.File
import java.io.IOException

/**
 * State of the translate screen: it outlives the screens, and in a file also the process.
 *
 * The file rather than the saved state of the activity: that goes through the system and has no place for long texts.
 * All members are for the main thread.
 *
 * @param model id of the model that would translate now, null if there is none yet
 * @param isTypedTranslated whether texts are translated without being asked
 * @param makeJob makes the translation of a text; its second argument says whether the history gets it without being asked
 */
class TranslateSession(
    file: File,
    private val log: EventLog,
    private val model: () -> String?,
    private val isTypedTranslated: () -> Boolean,
    private val makeJob: (String, Boolean) -> TranslationJob,
) {
    private val file = AtomicFile(file)
    private var saved: String? = null

    /** What a translation was made of. @property model null if it was not known at its beginning */
    internal class Basis(val text: String, val model: String?)

    /** A text with its translation. */
    internal class Content(val input: String, val output: String, val basis: Basis?, val languages: Pair<String, String>?)

    /** The text to translate. */
    var input = ""
        private set

    /** The last translation begun in this process. */
    var job: TranslationJob? = null
        private set

    /** Shown while there is no [job], or nothing of it. */
    private var earlier = ""
    private var earlierLanguages: Pair<String, String>? = null
    private var basis: Basis? = null

    /** The translation as far as it is there. */
    val output: String get() = job?.partial?.takeUnless { isOutdated } ?: earlier

    /** Whether [output] is that of the text before, since nothing of the new one is there yet. */
    val isOutdated: Boolean get() = job.let { it != null && it.outcome == null && it.partial.isEmpty() }

    /** Codes of source and target of [output]; null if they are not known. */
    val languages: Pair<String, String>?
        get() = job.let { if (it == null || isOutdated) earlierLanguages else it.model?.languages }

    /** Whether there is a text that the model in use has not been given yet. */
    val needsTranslation: Boolean get() = input.isNotBlank() && !isGiven

    /** Whether [output] is that of [input], as far as it is there. */
    val isCurrent: Boolean get() = input.isNotBlank() && isGiven

    private val isGiven: Boolean
        get() = job?.outcome !is Outcome.NoModel &&
            basis.let { it != null && it.text == input && (it.model == null || it.model == model()) }

    /** Whether [output] is a whole translation: not of one that runs, failed or was stopped. */
    private val isWhole: Boolean get() = job.let { it == null || it.outcome is Outcome.Done }

    /** A person has changed the text. Once it is deleted, its translation goes too, if it came without being asked for. */
    fun edit(text: String) {
        if (text == input) return
        input = text
        if (text.isBlank() && isTypedTranslated()) put(Content(text, "", null, null))
    }

    /**
     * Translates [input]; a translation that is running is stopped.
     *
     * @param isTyped begun because a person paused, not because one asked: the last output stays until a new one begins, and
     *   the history gets only what such a series ends with, by [settle]
     */
    fun translate(isTyped: Boolean = false): TranslationJob {
        val before = output
        val beforeLanguages = languages
        job?.let { if (!isRevision(it.text)) it.keep() }
        job?.cancel()
        // Who types on, or asks for a translation, has seen what was replaced.
        if (!isTyped || replaced?.by != input) replaced = null
        earlier = if (isTyped) before else ""
        earlierLanguages = beforeLanguages
        basis = Basis(input, model())
        return makeJob(input, !isTyped).also {
            job = it
            it.start()
        }
    }

    /** Whether [input] is another state of an earlier text, rather than another text. */
    private fun isRevision(text: String): Boolean =
        2 * input.commonPrefixWith(text).length >= minOf(input.length, text.length)

    /** The text is final: its translation goes into the history. */
    fun settle() {
        job?.keep()
    }

    /** Why a text was replaced. */
    enum class Reason { SHARED, PASTED, CLEARED, FROM_HISTORY }

    /** State before a replacement by the text [by], to undo it. */
    class Replaced internal constructor(val reason: Reason, internal val by: String, internal val content: Content)

    /** The last replacement, until it is taken back, dismissed or translated over; null if there was no text to lose. */
    var replaced: Replaced? = null
        private set

    /**
     * Puts another text in place of [input], and what is known of its translation in place of [output].
     *
     * Nothing is announced: the screen that calls this, or the next one, draws it.
     */
    fun replace(text: String, reason: Reason, translation: String = "", languages: Pair<String, String>? = null) {
        // A part would come back as if it were all of it.
        val before = if (isWhole) Content(input, output, basis, this.languages) else Content(input, "", null, null)
        replaced = Replaced(reason, text, before).takeIf { input.isNotBlank() && input != text }
        val known = if (translation.isEmpty()) null else Basis(text, model())
        put(Content(text, translation, known, languages))
    }

    /**
     * Puts the translation in place of the text, for the model of the other direction. A part of one stays behind, and so
     * does that of another text.
     */
    fun swap() {
        val text = if (isCurrent && isWhole && output.isNotBlank()) output else input
        replaced = null
        put(Content(text, "", null, null))
    }

    /** Undoes the replacement in [replaced]. */
    fun undo() {
        replaced?.let { put(it.content) }
        replaced = null
    }

    /** Discards [replaced]. */
    fun dismissReplaced() {
        replaced = null
    }

    private fun put(content: Content) {
        settle()
        job?.cancel()
        job = null
        input = content.input
        earlier = content.output
        earlierLanguages = content.languages
        basis = content.basis
    }

    /** Writes text and translation to the file, if they changed. */
    fun save() {
        val json = JSONObject().put(INPUT, input).put(OUTPUT, output)
        basis?.let { if (isWhole && it.text == input) json.put(MODEL, it.model ?: model()) }
        val content = json.toString()
        if (content == saved) return
        try {
            val stream = file.startWrite()
            try {
                stream.write(content.toByteArray())
                file.finishWrite(stream)
                saved = content
            } catch (error: IOException) {
                file.failWrite(stream)
                throw error
            }
        } catch (error: IOException) {
            log.failure("draft", error)
        }
    }

    /** Restores the state that [save] wrote in an earlier process. */
    fun restore() {
        try {
            if (!file.isThere()) return
            val content = JSONObject(String(file.readFully()))
            input = content.optString(INPUT)
            earlier = content.optString(OUTPUT)
            if (content.has(MODEL)) basis = Basis(input, content.optString(MODEL))
        } catch (error: IOException) {
            log.failure("draft", error)
        } catch (error: JSONException) {
            // Its message quotes the file, and so a person's text.
            log.info("draft: a file that is none was left out (${error.javaClass.simpleName})")
        }
    }

    private companion object {
        const val INPUT = "input"
        const val OUTPUT = "output"

        /** The model that made the output of the input; there only if the output is whole. */
        const val MODEL = "model"
    }
}
