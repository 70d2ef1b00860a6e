package dev.litenlp.core

import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction
import org.json.JSONArray
import org.json.JSONObject

/** A text that is no JSON object. */
internal class JsonSyntaxException(message: String) : Exception(message)

/**
 * A strict JSON reader (RFC 8259) that fills the classes of `org.json`; it accepts the same documents as `parse_json` of the
 * Python package.
 *
 * Those have parsers of their own, but Android's and the JVM's differ in what they accept (comments, missing quotes, text after
 * the end) and one of them overflows the stack on deep nesting. What is read here comes from files that nobody vouches for.
 * Integers have 64 bits and become [Int] or [Long], other numbers [Double]. Equal keys in one object are refused: readers differ
 * in which of them counts.
 */
internal object Json {
    /** Size of a document: cards, manifests and headers have some ten thousand bytes. */
    const val MAX_DOCUMENT_BYTES = 4 shl 20

    /** Values in a document, keys not counted; one costs some hundred bytes, whatever it costs in the file. */
    const val MAX_VALUES = 100_000

    /** Digits of a refused number that a message shows. */
    private const val MAX_SHOWN = 40

    /** Levels of objects and lists; deeper nesting is refused: each level costs stack. */
    private const val MAX_DEPTH = 256

    /**
     * Reads an object. Size and number of values are counted before anything is made of them.
     *
     * @param maxBytes Largest size.
     * @param maxValues Most values, keys not counted.
     * @throws JsonSyntaxException If [content] is anything but one JSON object in UTF-8, or larger than the bounds.
     */
    fun parseObject(content: ByteArray, maxBytes: Int = MAX_DOCUMENT_BYTES, maxValues: Int = MAX_VALUES): JSONObject {
        if (content.size > maxBytes) throw JsonSyntaxException("expected at most $maxBytes bytes, found ${content.size}")
        val values = countValues(content)
        if (values > maxValues) throw JsonSyntaxException("expected at most $maxValues values, found $values")
        val text = try {
            Charsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(content)).toString()
        } catch (error: CharacterCodingException) {
            throw JsonSyntaxException("expected UTF-8: ${error.message}")
        }
        return Parser(text).document() as? JSONObject ?: throw JsonSyntaxException("expected an object, found another value")
    }

    /** Every value but the first of a list follows a comma; brackets are counted for their own value and the first. */
    private fun countValues(content: ByteArray): Int {
        var values = 1
        var inString = false
        var at = 0
        while (at < content.size) {
            when (content[at].toInt().toChar()) {
                '"' -> inString = !inString
                // What is escaped ends no string; outside of one it is no JSON anyway.
                '\\' -> at++
                ',', '[', '{' -> if (!inString) values++
                else -> Unit
            }
            at++
        }
        return values
    }

    private class Parser(private val text: String) {
        private var at = 0

        fun document(): Any {
            val value = value(1)
            skipSpace()
            if (at != text.length) fail("the end")
            return value
        }

        private fun value(depth: Int): Any {
            skipSpace()
            val letter = peek()
            if (depth > MAX_DEPTH && (letter == '{' || letter == '[')) {
                throw JsonSyntaxException("expected at most $MAX_DEPTH levels, found more at character $at")
            }
            return when (letter) {
                '{' -> objectValue(depth)
                '[' -> arrayValue(depth)
                '"' -> string()
                't' -> word("true", true)
                'f' -> word("false", false)
                'n' -> word("null", JSONObject.NULL)
                else -> number()
            }
        }

        private fun objectValue(depth: Int): JSONObject {
            val result = JSONObject()
            at++
            skipSpace()
            if (take('}')) return result
            do {
                skipSpace()
                if (peek() != '"') fail("a key")
                val key = string()
                skipSpace()
                if (!take(':')) fail("':'")
                val value = value(depth + 1)
                if (result.has(key)) throw JsonSyntaxException("expected each key once, found '${key.take(40)}' twice in one object")
                result.put(key, value)
                skipSpace()
            } while (take(','))
            if (!take('}')) fail("',' or '}'")
            return result
        }

        private fun arrayValue(depth: Int): JSONArray {
            val result = JSONArray()
            at++
            skipSpace()
            if (take(']')) return result
            do {
                result.put(value(depth + 1))
                skipSpace()
            } while (take(','))
            if (!take(']')) fail("',' or ']'")
            return result
        }

        private fun string(): String {
            at++
            val start = at
            while (peek() != '"' && peek() != '\\') plainCharacter()
            if (peek() == '"') return text.substring(start, at++)
            val result = StringBuilder(text.substring(start, at))
            while (!take('"')) {
                if (take('\\')) result.append(escape()) else result.append(plainCharacter())
            }
            return result.toString().also(::checkPairs)
        }

        /** Refuses half of a surrogate pair, which only escapes can make, and no UTF-8 can hold. */
        private fun checkPairs(string: String) {
            var index = 0
            while (index < string.length) {
                val code = string.codePointAt(index)
                if (code in 0xD800..0xDFFF) {
                    throw JsonSyntaxException("expected characters, found the lone surrogate U+%04X".format(java.util.Locale.ROOT, code))
                }
                index += Character.charCount(code)
            }
        }

        private fun plainCharacter(): Char {
            if (at == text.length || text[at] < ' ') fail("a character of a string")
            return text[at++]
        }

        private fun escape(): Char {
            val letter = peek()
            at++
            return when (letter) {
                '"', '\\', '/' -> letter
                'b' -> '\b'
                'f' -> '\u000c'
                'n' -> '\n'
                'r' -> '\r'
                't' -> '\t'
                'u' -> {
                    var code = 0
                    repeat(4) {
                        val digit = hexDigit(peek())
                        if (digit < 0) fail("four hexadecimal digits")
                        code = code * 16 + digit
                        at++
                    }
                    code.toChar()
                }
                else -> {
                    at--
                    fail("an escape")
                }
            }
        }

        private fun hexDigit(letter: Char): Int = when (letter) {
            in '0'..'9' -> letter - '0'
            in 'a'..'f' -> letter - 'a' + 10
            in 'A'..'F' -> letter - 'A' + 10
            else -> -1
        }

        private fun number(): Number {
            val start = at
            take('-')
            if (!take('0')) digits()
            val whole = at
            if (take('.')) digits()
            if (take('e') || take('E')) {
                if (!take('+')) take('-')
                digits()
            }
            val token = text.substring(start, at)
            if (at > whole) {
                val value = token.toDouble()
                if (value.isInfinite()) throw JsonSyntaxException("expected a number within the range of doubles, found ${token.take(MAX_SHOWN)}")
                return value
            }
            val value = token.toLongOrNull()
                ?: throw JsonSyntaxException("expected an integer of 64 bits, found ${token.take(MAX_SHOWN)}")
            return if (value in Int.MIN_VALUE..Int.MAX_VALUE) value.toInt() else value
        }

        private fun digits() {
            if (peek() !in '0'..'9') fail("a value")
            while (peek() in '0'..'9') at++
        }

        private fun word(word: String, value: Any): Any {
            if (!text.startsWith(word, at)) fail("a value")
            at += word.length
            return value
        }

        private fun skipSpace() {
            while (at < text.length && (text[at] == ' ' || text[at] == '\n' || text[at] == '\r' || text[at] == '\t')) at++
        }

        /** The character at hand; NUL, which JSON allows nowhere, at the end. */
        private fun peek(): Char = if (at < text.length) text[at] else '\u0000'

        private fun take(letter: Char): Boolean {
            if (peek() != letter) return false
            at++
            return true
        }

        private fun fail(expected: String): Nothing {
            val found = if (at < text.length) "U+%04X".format(java.util.Locale.ROOT, text[at].code) else "the end"
            throw JsonSyntaxException("expected $expected at character $at, found $found")
        }
    }
}
