package dev.litenlp.app.inference

import android.util.AtomicFile
import dev.litenlp.app.EventLog
import org.json.JSONException
import org.json.JSONObject
import java.io.File
import java.io.IOException

/**
 * State of the translate screen: it outlives the screens, and in a file also the process.
 *
 * The file rather than the saved state of the activity: that goes through the system and has no place for long texts.
 * All members are for the main thread.
 */
class TranslateSession(file: File, private val log: EventLog, private val makeJob: (String) -> TranslationJob) {
    private val file = AtomicFile(file)
    private var saved: String? = null

    /** The text to translate. */
    var input = ""

    /** The last translation begun in this process. */
    var job: TranslationJob? = null
        private set

    /** The last translation of an earlier process; shown until there is a [job]. */
    var earlierOutput = ""
        private set

    /** The translation as far as it is there. */
    val output: String get() = job?.partial ?: earlierOutput

    /** Translates [input]; one that is running is stopped. */
    fun translate(): TranslationJob {
        job?.cancel()
        replaced = null
        earlierOutput = ""
        return makeJob(input).also {
            job = it
            it.start()
        }
    }

    /** Why a text was replaced. */
    enum class Reason { SHARED, PASTED, CLEARED, FROM_HISTORY }

    /** State before a replacement, to undo it. */
    class Replaced(val reason: Reason, internal val input: String, internal val output: String)

    /** The last replacement, until it is taken back, dismissed or translated over; null if there was no text to lose. */
    var replaced: Replaced? = null
        private set

    /**
     * Puts another text in place of [input], and what is known of its translation in place of [output].
     *
     * Nothing is announced: the screen that calls this, or the next one, draws it.
     */
    fun replace(text: String, reason: Reason, translation: String = "") {
        replaced = Replaced(reason, input, output).takeIf { input.isNotBlank() && input != text }
        put(text, translation)
    }

    /** Undoes the replacement in [replaced]. */
    fun undo() {
        replaced?.let { put(it.input, it.output) }
        replaced = null
    }

    /** Discards [replaced]. */
    fun dismissReplaced() {
        replaced = null
    }

    private fun put(text: String, translation: String) {
        job?.cancel()
        job = null
        input = text
        earlierOutput = translation
    }

    /** Writes text and translation to the file, if they changed. */
    fun save() {
        val content = JSONObject().put(INPUT, input).put(OUTPUT, output).toString()
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
            if (!file.baseFile.exists()) return
            val content = JSONObject(String(file.readFully()))
            input = content.optString(INPUT)
            earlierOutput = content.optString(OUTPUT)
        } catch (error: IOException) {
            log.failure("draft", error)
        } catch (error: JSONException) {
            log.failure("draft", error)
        }
    }

    private companion object {
        const val INPUT = "input"
        const val OUTPUT = "output"
    }
}
