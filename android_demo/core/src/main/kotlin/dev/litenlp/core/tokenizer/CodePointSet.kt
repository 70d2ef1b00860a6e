package dev.litenlp.core.tokenizer

import java.util.Arrays

/** Characters, as the ranges of [UnicodeData] list them. */
internal class CodePointSet(ranges: String) {
    // Start of a range, end of it (exclusive), start of the next one, ...
    private val bounds: IntArray

    init {
        val numbers = parseBase36(ranges)
        bounds = numbers
        for (index in 1 until numbers.size) bounds[index] += bounds[index - 1]
    }

    operator fun contains(codePoint: Int): Boolean {
        val place = Arrays.binarySearch(bounds, codePoint)
        // Not found, the place is -(index of the next greater bound) - 1; an odd bound ends a range.
        return if (place >= 0) place % 2 == 0 else (-place - 1) % 2 == 1
    }
}

/** The numbers of a string of [UnicodeData]: base 36, each followed by a space. */
internal fun parseBase36(text: String): IntArray {
    val numbers = IntArray(text.count { it == ' ' })
    var count = 0
    var value = 0
    var negative = false
    for (character in text) {
        when (character) {
            ' ' -> {
                numbers[count++] = if (negative) -value else value
                value = 0
                negative = false
            }
            '-' -> negative = true
            else -> value = value * 36 + (if (character <= '9') character - '0' else character - 'a' + 10)
        }
    }
    return numbers
}
