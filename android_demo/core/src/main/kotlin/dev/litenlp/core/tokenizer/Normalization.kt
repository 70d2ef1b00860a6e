package dev.litenlp.core.tokenizer

import java.text.Normalizer
import java.util.Arrays

/** Changes to the text before it is tokenized: a Unicode normalization form, lower case; both as the Rust library does them. */
internal class Normalization(private val form: Normalizer.Form?, private val lowercase: Boolean) {
    /** @param text Without lone surrogates. */
    fun apply(text: String): String {
        val formed = if (form == null) text else normalize(text, form)
        return if (lowercase) lowercase(formed) else formed
    }
}

/** Below this, no character has a decomposition, and none is a combining mark. */
private const val FIRST_NORMALIZED = '\u00A0'

private val normalized by lazy(LazyThreadSafetyMode.PUBLICATION) { CodePointSet(UnicodeData.NORMALIZED) }

/**
 * Normalizes as a library of an older Unicode version does. Normalization of a character never changes once Unicode has it, so
 * every newer platform agrees on the characters in [normalized]. All others stand between their neighbours unchanged: the
 * platform sees only what is between them.
 */
private fun normalize(text: String, form: Normalizer.Form): String {
    if (text.all { it < FIRST_NORMALIZED }) return text
    val output = StringBuilder(text.length)
    var start = 0
    while (start < text.length) {
        val isActive = text.codePointAt(start) in normalized
        var end = start
        while (end < text.length) {
            val codePoint = text.codePointAt(end)
            if ((codePoint in normalized) != isActive) break
            end += Character.charCount(codePoint)
        }
        val run = text.substring(start, end)
        output.append(if (isActive) Normalizer.normalize(run, form) else run)
        start = end
    }
    return output.toString()
}

/** Character by character, whatever stands beside it: a sigma at the end of a word is no other than one inside. */
private fun lowercase(text: String): String {
    val output = StringBuilder(text.length)
    var index = 0
    while (index < text.length) {
        val codePoint = text.codePointAt(index)
        index += Character.charCount(codePoint)
        Lowercase.append(codePoint, output)
    }
    return output.toString()
}

/** The two lower-case tables of [UnicodeData]. */
private object Lowercase {
    private val firsts: IntArray
    private val lasts: IntArray
    private val steps: IntArray
    private val shifts: IntArray

    // The character, how many are its lower case, and these; next character.
    private val many = parseBase36(UnicodeData.LOWERCASE_TO_MANY)

    init {
        val runs = parseBase36(UnicodeData.LOWERCASE)
        firsts = IntArray(runs.size / 4)
        lasts = IntArray(firsts.size)
        steps = IntArray(firsts.size)
        shifts = IntArray(firsts.size)
        var end = 0
        for (run in firsts.indices) {
            steps[run] = runs[run * 4 + 2]
            shifts[run] = runs[run * 4 + 3]
            firsts[run] = end + runs[run * 4]
            lasts[run] = firsts[run] + (runs[run * 4 + 1] - 1) * steps[run]
            end = lasts[run] + 1
        }
    }

    fun append(codePoint: Int, output: StringBuilder) {
        var index = 0
        while (index < many.size) {
            if (many[index] == codePoint) {
                for (place in 1..many[index + 1]) output.appendCodePoint(many[index + 1 + place])
                return
            }
            index += 2 + many[index + 1]
        }
        output.appendCodePoint(toOne(codePoint))
    }

    private fun toOne(codePoint: Int): Int {
        val place = Arrays.binarySearch(firsts, codePoint)
        val run = if (place >= 0) place else -place - 2
        if (run < 0 || codePoint > lasts[run] || (codePoint - firsts[run]) % steps[run] != 0) return codePoint
        return codePoint + shifts[run]
    }
}
