package dev.litenlp.app.inference

import dev.litenlp.app.EventLog
import java.io.File
import java.io.IOException

/**
 * First uses of models by runtimes, each with a file while it lasts: native code may end the process without a word, and would at
 * every start if a text that waits were translated again. Safe from any thread.
 *
 * @param directory holds nothing else
 */
class FirstUses(private val directory: File, private val log: EventLog) {
    @Volatile
    private var underWay: File? = null

    /** Folders of models, each with the runtime that was at its first use of the model when an earlier process ended. */
    fun unfinished(): List<Pair<String, String>> =
        directory.list().orEmpty().map { it.substringBefore(SEPARATOR) to it.substringAfter(SEPARATOR) }

    /** Does [work], in which a runtime loads a model and runs it for the first time. */
    fun <T> during(folder: String, runtime: String, work: () -> T): T {
        val mark = File(directory, "$folder$SEPARATOR$runtime")
        try {
            directory.mkdirs()
            mark.createNewFile()
            underWay = mark
        } catch (error: IOException) {
            log.failure("mark of a first use", error)
        }
        try {
            return work()
        } finally {
            mark.delete()
            underWay = null
        }
    }

    /** Forgets the use under way: the app is in the background, where it is the system that ends it. */
    fun dismiss() {
        underWay?.delete()
    }

    /** Forgets the unfinished uses, of one model or of all. */
    fun forget(folder: String? = null) {
        for (file in directory.listFiles().orEmpty()) {
            if (folder == null || file.name.substringBefore(SEPARATOR) == folder) file.delete()
        }
    }

    private companion object {
        /** In the name of neither a folder nor a runtime. */
        const val SEPARATOR = ' '
    }
}
