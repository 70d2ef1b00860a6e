package dev.litenlp.core.tokenizer

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.search.SpecialTokens
import java.io.ByteArrayOutputStream
import java.util.Locale

/**
 * Byte-level BPE: text to token ids and back, as `lite_nlp/data/tokenizer.py` does it, id for id on any text.
 *
 * No character is outside the vocabulary: what no merge covers falls apart into its bytes. Ids never include the special
 * tokens, whatever the text. Any number of threads may use a tokenizer.
 */
class Tokenizer private constructor(document: TokenizerDocument) {
    private val normalization = document.normalization
    private val byteTokens = document.byteTokens
    private val merges = document.merges
    private val cache = WordCache()

    // The bytes of all tokens, one after another, and where each one's end.
    private val spellings: ByteArray
    private val ends: IntArray

    init {
        val bytes = ByteArrayOutputStream()
        ends = IntArray(document.tokens.size) { id ->
            ByteLevel.spell(document.tokens[id], bytes)
            bytes.size()
        }
        spellings = bytes.toByteArray()
    }

    /** Number of ids, special tokens included. */
    val vocabSize: Int
        get() = ends.size

    /**
     * Token ids of [text], without special tokens; none for the empty string.
     *
     * @throws LiteNlpException `NOT_UNICODE` if [text] holds a lone surrogate, which is no character.
     */
    fun encode(text: String): IntArray = encodeNormalized(normalize(text))

    /**
     * The text of [ids]; special tokens are left out. Ids that do not form whole UTF-8 characters give U+FFFD in their place.
     *
     * @throws LiteNlpException `OTHER_TOKENIZER` if an id is outside the vocabulary.
     */
    fun decode(ids: IntArray): String {
        val bytes = ByteArrayOutputStream(ids.size * 4)
        for (id in ids) {
            if (id !in 0 until vocabSize) {
                throw LiteNlpException(Problem.OTHER_TOKENIZER, "token id: expected 0 to ${vocabSize - 1}, found $id")
            }
            if (id >= SpecialTokens.COUNT) bytes.write(spellings, startOf(id), ends[id] - startOf(id))
        }
        return decodeUtf8(bytes.toByteArray(), bytes.size()).removePrefix(" ")
    }

    /**
     * Fraction of the letters of [text] that the vocabulary has no token for, 0 to 1; 0 without letters.
     *
     * A letter counts when its UTF-8 bytes are spread over two or more tokens: the training text did not hold it, or too rarely
     * to be learned. Letters are the characters of the Unicode categories L*, after normalization. ASCII letters are one byte
     * and never count.
     *
     * @throws LiteNlpException As [encode].
     */
    fun unfamiliar(text: String): Double {
        val normalized = normalize(text)
        val tokens = encodeNormalized(normalized)
        var letters = 0
        var split = 0
        var token = 0
        var cut = 0 // where a token ends, in bytes: the first place behind the start of the character
        var start = 0
        var index = 0
        while (index < normalized.length) {
            val codePoint = normalized.codePointAt(index)
            index += Character.charCount(codePoint)
            while (cut <= start) {
                cut += ends[tokens[token]] - startOf(tokens[token])
                token++
            }
            start += utf8Length(codePoint)
            if (PreTokenizer.isLetter(codePoint)) {
                letters++
                if (cut < start) split++
            }
        }
        return if (letters == 0) 0.0 else split.toDouble() / letters
    }

    private fun startOf(id: Int): Int = if (id == 0) 0 else ends[id - 1]

    /** The text as the merges see it: with a space before it, so that a word is spelled the same at its start as inside. */
    private fun normalize(text: String): String {
        checkUnicode(text)
        return if (text.isEmpty()) text else " " + normalization.apply(text)
    }

    private fun encodeNormalized(text: String): IntArray {
        // Most words are one token or two.
        var tokens = IntArray(text.length / 2 + 8)
        var count = 0
        var start = 0
        while (start < text.length) {
            val end = PreTokenizer.wordEnd(text, start)
            val word = cache.find(text, start, end) ?: encodeWord(text, start, end)
            if (count + word.size > tokens.size) tokens = tokens.copyOf(maxOf(tokens.size * 2, count + word.size))
            System.arraycopy(word, 0, tokens, count, word.size)
            count += word.size
            start = end
        }
        return tokens.copyOf(count)
    }

    private fun encodeWord(text: String, start: Int, end: Int): IntArray {
        val bytes = ByteArray((end - start) * 3)
        val size = encodeUtf8(text, start, end, bytes)
        val tokens = IntArray(size) { byteTokens[bytes[it].toInt() and 0xFF] }
        val word = tokens.copyOf(merges.apply(tokens, size))
        cache.keep(text, start, end, word)
        return word
    }

    companion object {
        /**
         * Reads a `tokenizer.json`.
         *
         * @throws LiteNlpException `ALTERED` if the file is damaged, `OTHER_TOKENIZER` if it is of another kind or has other
         *   options.
         */
        fun fromJson(content: ByteArray): Tokenizer = Tokenizer(TokenizerDocument.parse(content))
    }
}

private fun checkUnicode(text: String) {
    var index = 0
    var characters = 0
    while (index < text.length) {
        val codePoint = text.codePointAt(index)
        if (codePoint in 0xD800..0xDFFF) {
            val found = String.format(Locale.ROOT, "U+%04X at character %d", codePoint, characters)
            throw LiteNlpException(Problem.NOT_UNICODE, "text: expected Unicode characters, found the lone surrogate $found")
        }
        index += Character.charCount(codePoint)
        characters++
    }
}
