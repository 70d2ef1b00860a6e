package dev.litenlp.app.ui

import android.content.Intent
import dev.litenlp.app.EventLog

/** Text from elsewhere: other apps, the clipboard. */
object IncomingText {
    /**
     * Most characters (UTF-16 units) of a text that is translated. Ten thousand words have some 60,000; a translation of this
     * many takes minutes, and text fields become slow.
     */
    const val MAX_CHARS = 100_000

    /** The text under [key] of an intent; null if there is none or it cannot be read. Not bounded. */
    fun read(intent: Intent, key: String, log: EventLog): String? = try {
        intent.getCharSequenceExtra(key)?.toString()
    } catch (error: RuntimeException) {
        // Whatever another app has put into the intent must not end this one.
        log.failure("text of another app", error)
        null
    }

    /** The first words of a text, for a place of two or three lines: laying out a book for them would take a second. */
    fun beginning(text: String): String = text.take(BEGINNING_CHARS).replace('\n', ' ')

    private const val BEGINNING_CHARS = 300

    /** The beginning of a text that fits, without half a character at its end. */
    fun bound(text: String): String {
        if (text.length <= MAX_CHARS) return text
        val end = if (text[MAX_CHARS - 1].isHighSurrogate()) MAX_CHARS - 1 else MAX_CHARS
        return text.substring(0, end)
    }
}
