package dev.litenlp.core.tokenizer

import java.io.ByteArrayOutputStream

/**
 * The byte-level alphabet of GPT-2, in which a vocabulary spells its tokens: each character stands for one byte. Bytes that are
 * printable Latin-1 stand for themselves, the others for the characters from U+0100 on.
 */
internal object ByteLevel {
    /** The character for each byte. */
    val alphabet: CharArray

    private val bytes = IntArray(0x144) { -1 }

    init {
        var next = 0x100
        alphabet = CharArray(256) { byte ->
            val isPrintable = byte in 0x21..0x7E || byte in 0xA1..0xAC || byte in 0xAE..0xFF
            (if (isPrintable) byte else next++).toChar()
        }
        for (byte in alphabet.indices) bytes[alphabet[byte].code] = byte
    }

    /** Appends the bytes that a token spells; those of its UTF-8 if it is not written in the alphabet. */
    fun spell(token: String, output: ByteArrayOutputStream) {
        if (token.all { it.code < bytes.size && bytes[it.code] >= 0 }) {
            for (character in token) output.write(bytes[character.code])
        } else {
            output.write(token.toByteArray(Charsets.UTF_8))
        }
    }
}

/**
 * Reads UTF-8; each broken part becomes one U+FFFD.
 *
 * A broken part is the longest beginning of a character, else a single byte: what the Unicode standard recommends and Rust does.
 * Decoders of virtual machines differ.
 *
 * @param size Bytes of [bytes] that count.
 */
internal fun decodeUtf8(bytes: ByteArray, size: Int): String {
    val output = StringBuilder(size)
    var index = 0
    while (index < size) {
        val first = bytes[index].toInt() and 0xFF
        if (first < 0x80) {
            output.append(first.toChar())
            index++
            continue
        }
        val length = sequenceLength(first)
        var codePoint = first and (0x7F shr length)
        var read = 1
        while (read < length && index + read < size && isContinuation(first, read, bytes[index + read].toInt() and 0xFF)) {
            codePoint = (codePoint shl 6) or (bytes[index + read].toInt() and 0x3F)
            read++
        }
        output.appendCodePoint(if (read == length) codePoint else 0xFFFD)
        index += read
    }
    return output.toString()
}

/** Bytes of a character that starts with this one; 5, which no character has, if none starts so. */
private fun sequenceLength(first: Int): Int =
    when (first) {
        in 0xC2..0xDF -> 2
        in 0xE0..0xEF -> 3
        in 0xF0..0xF4 -> 4
        else -> 5
    }

/** Whether a byte may follow; the second one is restricted by the first, against overlong forms, surrogates and the end. */
private fun isContinuation(first: Int, place: Int, byte: Int): Boolean =
    when {
        place > 1 -> byte in 0x80..0xBF
        first < 0xC2 || first > 0xF4 -> false
        first == 0xE0 -> byte in 0xA0..0xBF
        first == 0xED -> byte in 0x80..0x9F
        first == 0xF0 -> byte in 0x90..0xBF
        first == 0xF4 -> byte in 0x80..0x8F
        else -> byte in 0x80..0xBF
    }

/** The bytes of `text[start, end)` in UTF-8, of which [output] must have place for three per `Char`; returns how many. */
internal fun encodeUtf8(text: String, start: Int, end: Int, output: ByteArray): Int {
    var size = 0
    var index = start
    while (index < end) {
        val codePoint = text.codePointAt(index)
        index += Character.charCount(codePoint)
        if (codePoint < 0x80) {
            output[size++] = codePoint.toByte()
            continue
        }
        val following = utf8Length(codePoint) - 1
        // As many ones as there are bytes, then a zero.
        val mark = (0xF00 shr (following + 1)) and 0xFF
        output[size++] = (mark or (codePoint shr (6 * following))).toByte()
        for (place in following - 1 downTo 0) output[size++] = (0x80 or ((codePoint shr (6 * place)) and 0x3F)).toByte()
    }
    return size
}

/** Bytes of a character in UTF-8. */
internal fun utf8Length(codePoint: Int): Int =
    when {
        codePoint < 0x80 -> 1
        codePoint < 0x800 -> 2
        codePoint < 0x10000 -> 3
        else -> 4
    }
