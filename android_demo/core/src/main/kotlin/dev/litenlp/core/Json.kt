package dev.litenlp.core

import java.math.BigInteger
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.nio.charset.CodingErrorAction
import org.json.JSONArray
import org.json.JSONObject

/** A text that is no JSON object. */
internal class JsonSyntaxException(message: String) : Exception(message)

/**
 * A strict JSON reader (RFC 8259) that fills the classes of `org.json`.
 *
 * Those have parsers of their own, but Android's and the JVM's differ in what they accept (comments, missing quotes, text after
 * the end) and one of them overflows the stack on deep nesting. What is read here comes from files that nobody vouches for.
 * Integers become [Int], [Long] or [BigInteger], other numbers [Double]; of equal keys the last one counts.
 */
internal object Json {
    /** Deeper nesting is refused: each level costs stack. */
    private const val MAX_DEPTH = 256

    /** Reading an integer takes time in the square of its digits. */
    private const val MAX_DIGITS = 4300

    /**
     * Reads an object.
     *
     * @throws JsonSyntaxException If [content] is anything but one JSON object in UTF-8.
     */
    fun parseObject(content: ByteArray): JSONObject {
        val text = try {
            Charsets.UTF_8.newDecoder().onMalformedInput(CodingErrorAction.REPORT)
                .onUnmappableCharacter(CodingErrorAction.REPORT).decode(ByteBuffer.wrap(content)).toString()
        } catch (error: CharacterCodingException) {
            throw JsonSyntaxException("expected UTF-8: ${error.message}")
        }
        return Parser(text).document() as? JSONObject ?: throw JsonSyntaxException("expected an object, found another value")
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
            if (depth > MAX_DEPTH) throw JsonSyntaxException("expected at most $MAX_DEPTH levels, found more at character $at")
            skipSpace()
            return when (peek()) {
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
                result.put(key, value(depth + 1))
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
            return result.toString()
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
                if (value.isInfinite()) throw JsonSyntaxException("expected a number within the range of doubles, found $token")
                return value
            }
            if (token.length > MAX_DIGITS) throw JsonSyntaxException("expected at most $MAX_DIGITS digits, found ${token.length}")
            val value = BigInteger(token)
            return when {
                value.bitLength() < Int.SIZE_BITS -> value.toInt()
                value.bitLength() < Long.SIZE_BITS -> value.toLong()
                else -> value
            }
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
