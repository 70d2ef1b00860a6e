package dev.litenlp.core.search

/**
 * Python's idea of white space and of the ends of lines: `str.isspace`, `str.strip`, `\s` of `re` and `str.splitlines`. Kotlin's
 * differs (it counts no U+0085, for one).
 */
internal object PythonText {
    /** `str.isspace` of one character, which is what `\s` matches too. */
    fun isSpace(codePoint: Int): Boolean =
        codePoint in 0x09..0x0D || codePoint in 0x1C..0x20 || codePoint == 0x85 || codePoint == 0xA0 || codePoint == 0x1680 ||
            codePoint in 0x2000..0x200A || codePoint == 0x2028 || codePoint == 0x2029 || codePoint == 0x202F ||
            codePoint == 0x205F || codePoint == 0x3000

    /** `text.strip()` */
    fun strip(text: String): String = text.trim { isSpace(it.code) }

    /** `re.sub(r"\s{2,}|\t", " ", text)` */
    fun singleSpaces(text: String): String {
        val output = StringBuilder(text.length)
        var index = 0
        while (index < text.length) {
            val start = index
            while (index < text.length && isSpace(text[index].code)) index++
            if (index - start > 1 || (index > start && text[start] == '\t')) output.append(' ') else output.append(text, start, index)
            if (index < text.length) output.append(text[index++])
        }
        return output.toString()
    }

    /** Whether `str.splitlines` ends a line at this character. */
    fun isLineEnd(codePoint: Int): Boolean =
        codePoint in 0x0A..0x0D || codePoint in 0x1C..0x1E || codePoint == 0x85 || codePoint == 0x2028 || codePoint == 0x2029

    /** `" ".join(text.splitlines())`: one line, whatever a reader may take for the end of a line. */
    fun joinLines(text: String): String {
        val output = StringBuilder(text.length)
        var index = 0
        while (index < text.length) {
            val character = text[index++]
            if (!isLineEnd(character.code)) {
                output.append(character)
                continue
            }
            if (character == '\r' && index < text.length && text[index] == '\n') index++
            // What ends the last line has no line behind it.
            if (index < text.length) output.append(' ')
        }
        return output.toString()
    }
}
