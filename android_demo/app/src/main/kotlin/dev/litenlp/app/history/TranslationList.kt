package dev.litenlp.app.history

import android.os.Handler
import android.util.AtomicFile
import dev.litenlp.app.Changes
import dev.litenlp.app.EventLog
import dev.litenlp.app.SerialThread
import dev.litenlp.app.isThere
import org.json.JSONException
import org.json.JSONObject
import java.io.File
import java.io.IOException

/**
 * One translation that is kept.
 *
 * @property time when it was made, milliseconds since the epoch
 * @property languages codes of source and target, null if the model did not say
 * @property totalMs how long it took
 */
class KeptTranslation(
    val time: Long,
    val source: String,
    val target: String,
    val languages: Pair<String, String>?,
    val runtime: String,
    val totalMs: Double,
) {
    /** Characters it takes, for the bound of the file. */
    internal val size: Int get() = source.length + target.length

    internal fun toJson(): String {
        val json = JSONObject()
            .put("time", time)
            .put("source", source)
            .put("target", target)
            .put("runtime", runtime)
            .put("total_ms", totalMs)
        if (languages != null) json.put("languages", "${languages.first} ${languages.second}")
        return json.toString()
    }

    internal companion object {
        /** @throws JSONException if the line is no entry */
        fun parse(line: String): KeptTranslation {
            val json = JSONObject(line)
            val languages = json.optString("languages").split(' ').takeIf { it.size == 2 }
            return KeptTranslation(
                time = json.getLong("time"),
                source = json.getString("source"),
                target = json.getString("target"),
                languages = languages?.let { it[0] to it[1] },
                runtime = json.optString("runtime"),
                totalMs = json.optDouble("total_ms", 0.0),
            )
        }
    }
}

/**
 * Translations that are kept, the newest first, one JSON object per line of [file]: the history, and the favourites.
 *
 * At most [maxEntries] of at most [maxChars] characters together; the oldest go first, unless [hasRoomFor] is asked before.
 * Members are for the main thread; the file is read and written on [thread], always as a whole, so that it is complete at any
 * time.
 */
class TranslationList(
    file: File,
    private val log: EventLog,
    private val thread: SerialThread,
    private val main: Handler,
    private val maxEntries: Int = 200,
    private val maxChars: Int = 1_000_000,
) {
    private val name = file.nameWithoutExtension
    private val file = AtomicFile(file)
    private var isLoaded = false
    internal var isLoading = false
        private set

    /** Whether the file is there and cannot be read: it is left as it is. For [thread]. */
    private var isUnreadable = false
    private var waiting = ArrayList<(List<KeptTranslation>) -> List<KeptTranslation>>()

    val changes = Changes()

    /** Empty until [load] is through. */
    var entries: List<KeptTranslation> = emptyList()
        private set

    /** Reads the file, once; [changes] announces the end. */
    fun load() {
        if (isLoaded || isLoading) return
        isLoading = true
        thread.run {
            val found = read()
            main.post {
                isLoaded = true
                isLoading = false
                entries = found
                val missed = waiting
                waiting = ArrayList()
                for (change in missed) change(change)
                changes.announce()
            }
        }
    }

    /** Adds an entry at the front; an entry with the same source and target moves there. */
    fun add(entry: KeptTranslation) = change { all ->
        bound(listOf(entry) + all.filterNot { it.source == entry.source && it.target == entry.target })
    }

    /** The entry with a source and a target, null if there is none or [load] is not through. */
    fun find(source: String, target: String): KeptTranslation? = entries.find { it.source == source && it.target == target }

    /** Whether an entry can be added without another one going. */
    fun hasRoomFor(entry: KeptTranslation): Boolean =
        entries.size < maxEntries && entries.sumOf { it.size.toLong() } + entry.size <= maxChars

    fun remove(entry: KeptTranslation) = change { all -> all.filterNot { it === entry } }

    fun clear() = change { emptyList() }

    private fun change(how: (List<KeptTranslation>) -> List<KeptTranslation>) {
        if (!isLoaded) {
            waiting.add(how)
            load()
            return
        }
        entries = how(entries)
        val snapshot = entries
        thread.run { write(snapshot) }
        changes.announce()
    }

    private fun bound(all: List<KeptTranslation>): List<KeptTranslation> {
        var chars = 0
        return all.take(maxEntries).takeWhile {
            chars += it.size
            chars <= maxChars
        }
    }

    private fun read(): List<KeptTranslation> {
        if (!file.isThere()) return emptyList()
        val lines = try {
            String(file.readFully()).lines()
        } catch (error: IOException) {
            log.failure(name, error)
            isUnreadable = true
            return emptyList()
        }
        return lines.filter { it.isNotEmpty() }.mapNotNull { line ->
            try {
                KeptTranslation.parse(line)
            } catch (error: JSONException) {
                log.info("$name: a line that is no entry was left out (${error.javaClass.simpleName})")
                null
            }
        }
    }

    private fun write(all: List<KeptTranslation>) {
        if (isUnreadable) return
        try {
            val stream = file.startWrite()
            try {
                stream.write(all.joinToString("") { it.toJson() + "\n" }.toByteArray())
                file.finishWrite(stream)
            } catch (error: IOException) {
                file.failWrite(stream)
                throw error
            }
        } catch (error: IOException) {
            log.failure(name, error)
        }
    }
}
