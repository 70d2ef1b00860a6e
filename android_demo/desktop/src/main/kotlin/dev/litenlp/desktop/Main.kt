package dev.litenlp.desktop

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.Translator
import java.io.File
import java.io.PrintStream
import java.io.Reader
import kotlin.system.exitProcess

private const val USAGE = "usage: litenlp-desktop BUNDLE [--threads N] [--beam N] < lines > translations\n" +
    "BUNDLE is an installed bundle, a folder; or BUNDLE.zip and --models FOLDER, where it is installed first"

/** Largest bundle that is installed. */
private const val MAX_BUNDLE_BYTES = 1L shl 30

/**
 * Translates standard input line by line with ONNX Runtime's Java API: what an app does, without a device.
 *
 * Ends with 1 if something fails and 2 if it is called wrongly.
 */
fun main(arguments: Array<String>) {
    val options = parse(arguments.toList())
    if (options == null) {
        System.err.println(USAGE)
        exitProcess(2)
    }
    try {
        translateLines(options)
    } catch (error: LiteNlpException) {
        System.err.println("error: ${error.problem}: ${error.message}")
        exitProcess(1)
    }
}

private class Options(val bundle: File, val models: File?, val threads: Int, val beamSize: Int)

private fun parse(arguments: List<String>): Options? {
    if (arguments.size % 2 == 0 || arguments[0].startsWith("--")) return null
    val named = arguments.drop(1).chunked(2).associate { (name, value) -> name to value }
    if (!setOf("--threads", "--beam", "--models").containsAll(named.keys)) return null
    val threads = (named["--threads"] ?: "1").toIntOrNull() ?: return null
    val beamSize = (named["--beam"] ?: "1").toIntOrNull() ?: return null
    val bundle = File(arguments[0])
    val models = named["--models"]?.let(::File)
    if (threads < 1 || beamSize !in 1..SearchOptions.MAX_BEAM || (models == null) != bundle.isDirectory) return null
    return Options(bundle, models, threads, beamSize)
}

private fun translateLines(options: Options) {
    val bundle = if (options.models == null) {
        InstalledBundle.open(options.bundle, verify = true)
    } else {
        install(options.bundle, options.models)
    }
    DesktopEngineFactory.open(bundle, options.threads).use { engine ->
        val translator = Translator.of(bundle, engine, options.beamSize)
        val output = PrintStream(System.out, true, "UTF-8")
        for (line in linesOf(System.`in`.bufferedReader(Charsets.UTF_8))) output.print(translator.translate(line).text + "\n")
        output.flush()
    }
}

/** The lines of a text as they arrive; only "\n" ends one, as for `lite-nlp translate`. */
internal fun linesOf(text: Reader): Sequence<String> = sequence {
    val line = StringBuilder()
    while (true) {
        val character = text.read()
        if (character == '\n'.code || character < 0 && line.isNotEmpty()) {
            yield(line.toString())
            line.clear()
        } else if (character >= 0) {
            line.append(character.toChar())
        }
        if (character < 0) break
    }
}

private fun install(archive: File, models: File): InstalledBundle = archive.inputStream().use {
    BundleInstaller.install(it, models, MAX_BUNDLE_BYTES, { models.apply { mkdirs() }.usableSpace }, { _, _ -> }, { false })
}
