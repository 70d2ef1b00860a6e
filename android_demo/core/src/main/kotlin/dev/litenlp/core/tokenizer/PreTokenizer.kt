package dev.litenlp.core.tokenizer

/**
 * Cuts text into words as GPT-2's pattern does,
 * `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
 *
 * Scanned by hand: what `\p{L}` holds depends on the Unicode version, which is another on every phone.
 */
internal object PreTokenizer {
    private const val OTHER = 0
    private const val LETTER = 1
    private const val NUMBER = 2
    private const val SPACE = 3

    private val letters = CodePointSet(UnicodeData.LETTERS)
    private val numbers = CodePointSet(UnicodeData.NUMBERS)
    private val spaces = CodePointSet(UnicodeData.SPACES)

    // Most text is below this; a look at a table is faster than a search in ranges.
    private const val TABLE_SIZE = 0x800
    private val table = ByteArray(TABLE_SIZE) { find(it).toByte() }

    /**
     * End of the word that starts at [start], one place behind its last `Char`.
     *
     * @param text Without lone surrogates.
     * @param start Less than the length of [text]: 0, or the end of the word before.
     */
    fun wordEnd(text: String, start: Int): Int {
        val first = text[start]
        if (first == '\'') {
            val length = contractionLength(text, start)
            if (length > 0) return start + length
        }
        val body = if (first == ' ' && start + 1 < text.length) start + 1 else start
        val kind = classOf(text.codePointAt(body))
        if (kind != SPACE) return runEnd(text, body, kind)
        val end = runEnd(text, start, SPACE)
        // White space leaves its last character to the word behind it, unless it has but one. They are all one Char long.
        return if (end == text.length || end == start + 1) end else end - 1
    }

    /** Whether the character is of a category L*. */
    fun isLetter(codePoint: Int): Boolean = classOf(codePoint) == LETTER

    private fun runEnd(text: String, start: Int, kind: Int): Int {
        var end = start
        while (end < text.length) {
            val codePoint = text.codePointAt(end)
            if (classOf(codePoint) != kind) break
            end += Character.charCount(codePoint)
        }
        return end
    }

    private fun contractionLength(text: String, start: Int): Int {
        val first = if (start + 1 < text.length) text[start + 1] else return 0
        if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2
        val second = if (start + 2 < text.length) text[start + 2] else return 0
        val isLong = ((first == 'r' || first == 'v') && second == 'e') || (first == 'l' && second == 'l')
        return if (isLong) 3 else 0
    }

    private fun classOf(codePoint: Int): Int = if (codePoint < TABLE_SIZE) table[codePoint].toInt() else find(codePoint)

    private fun find(codePoint: Int): Int =
        when (codePoint) {
            in letters -> LETTER
            in numbers -> NUMBER
            in spaces -> SPACE
            else -> OTHER
        }
}
