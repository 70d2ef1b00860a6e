package dev.litenlp.core.tokenizer

/**
 * Tokens of words seen before; a newer word takes the place of an older one.
 *
 * Threads need no lock: an entry is never changed, and losing one costs only time.
 */
internal class WordCache {
    private class Entry(val word: String, val tokens: IntArray)

    private val entries = arrayOfNulls<Entry>(SIZE)

    /** Tokens of `text[start, end)`, null if they are not here. */
    fun find(text: String, start: Int, end: Int): IntArray? {
        val entry = entries[placeOf(text, start, end)] ?: return null
        val isSame = entry.word.length == end - start && text.startsWith(entry.word, start)
        return if (isSame) entry.tokens else null
    }

    /** Keeps tokens of `text[start, end)`, unless it is so long that it will hardly come again. */
    fun keep(text: String, start: Int, end: Int, tokens: IntArray) {
        if (end - start <= MAX_LENGTH) entries[placeOf(text, start, end)] = Entry(text.substring(start, end), tokens)
    }

    private fun placeOf(text: String, start: Int, end: Int): Int {
        var hash = 0
        for (index in start until minOf(end, start + MAX_LENGTH)) hash = hash * 31 + text[index].code
        return (hash xor (hash ushr 16)) and (SIZE - 1)
    }

    private companion object {
        /** A power of 2. */
        const val SIZE = 4096
        const val MAX_LENGTH = 40
    }
}
