package dev.litenlp.app.ui.about

import android.content.Context
import java.io.FileNotFoundException

/** One text: a component's licence, or notices. */
class License(val title: String, val paragraphs: List<String>)

/** The texts in the asset licenses.txt, which the build collects. */
object Licenses {
    private const val ASSET = "licenses.txt"
    private val RULE = "=".repeat(72)

    /** All of them, empty if this build has none. */
    fun of(context: Context): List<License> = try {
        parse(context.assets.open(ASSET).bufferedReader().use { it.readText() })
    } catch (_: FileNotFoundException) {
        emptyList()
    }

    /** Reads sections, each headed by a line of 72 `=`, its title, and another such line. */
    fun parse(text: String): List<License> {
        val lines = text.lines()
        val heads = (0..lines.size - 3).filter { lines[it] == RULE && lines[it + 2] == RULE }
        return heads.mapIndexed { place, head ->
            val end = heads.getOrElse(place + 1) { lines.size }
            val body = lines.subList(head + 3, end).joinToString("\n")
            License(lines[head + 1].trim(), body.split(Regex("\n\\s*\n")).map { it.trim('\n') }.filter { it.isNotBlank() })
        }
    }
}
