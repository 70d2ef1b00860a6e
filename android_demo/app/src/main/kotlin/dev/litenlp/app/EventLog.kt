package dev.litenlp.app

import java.io.File
import java.io.IOException
import java.io.PrintWriter
import java.io.StringWriter
import java.text.SimpleDateFormat
import java.util.ArrayDeque
import java.util.Date
import java.util.Locale

/**
 * The last [capacity] events of the app, newest last, for a person to copy into a report.
 *
 * The technical messages of failures go here, in English; the screens show sentences ([Sentences]). Texts that a person
 * translates never do. Safe from any thread.
 *
 * @param crashFile where [recordCrash] leaves the trace of an uncaught error for the next start; null keeps none
 * @param now milliseconds since the epoch
 */
class EventLog(
    private val capacity: Int = 500,
    private val crashFile: File? = null,
    private val now: () -> Long = System::currentTimeMillis,
) {
    private val lines = ArrayDeque<String>()

    fun info(message: String) = add("I", message)

    /** A failure, with the messages of all that caused it. */
    fun failure(what: String, cause: Throwable) = add("E", "$what: ${describe(cause)}")

    /** All lines, oldest first. */
    @Synchronized
    fun text(): String = lines.joinToString("\n")

    @Synchronized
    fun clear() = lines.clear()

    /** Keeps an error that ends the process. Must not throw: it runs while the process dies. */
    fun recordCrash(thread: Thread, error: Throwable) {
        val trace = StringWriter().also { error.printStackTrace(PrintWriter(it)) }.toString().take(MAX_TRACE_CHARS)
        try {
            crashFile?.writeText("${stamp()} thread ${thread.name}\n$trace")
        } catch (_: IOException) {
            // Nowhere to say so.
        }
    }

    /** Puts what [recordCrash] kept in the process before into this log, once. */
    fun adoptCrash() {
        val file = crashFile ?: return
        try {
            if (!file.exists()) return
            add("E", "the app ended unexpectedly: ${file.readText().trim()}")
            file.delete()
        } catch (error: IOException) {
            failure("record of the last crash", error)
        }
    }

    @Synchronized
    private fun add(level: String, message: String) {
        while (lines.size >= capacity) lines.removeFirst()
        lines.addLast("${stamp()} $level $message")
    }

    private fun stamp(): String = SimpleDateFormat("yyyy-MM-dd HH:mm:ss.SSS", Locale.ROOT).format(Date(now()))

    private companion object {
        const val MAX_TRACE_CHARS = 20_000

        fun describe(error: Throwable): String {
            val causes = generateSequence(error) { it.cause }.take(5)
            return causes.joinToString("; caused by ") { "${it.javaClass.simpleName}: ${it.message}" }
        }
    }
}
