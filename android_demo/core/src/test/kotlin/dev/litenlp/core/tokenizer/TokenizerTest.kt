package dev.litenlp.core.tokenizer

import java.util.Random
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTimeout
import org.junit.jupiter.api.Test
import java.time.Duration

/** The parts of the tokenizer, and what holds for any text. */
class TokenizerTest {
    private val shipped = GoldenVectors.tokenizer("shipped")

    @Test
    fun wordsAreThoseOfThePattern() {
        val expected = mapOf(
            " I'm 42, they'll" to listOf(" I", "'m", " 42", ",", " they", "'ll"),
            "a  b\n\n c \t" to listOf("a", " ", " b", "\n\n", " c", " \t"),
            "'S 's 't're've'd'x" to listOf("'", "S", " '", "s", " '", "t", "'re", "'ve", "'d", "'", "x"),
            " \u00A0x\u3000" to listOf(" ", "\u00A0", "x", "\u3000"),
            "'" to listOf("'"),
            "x'l" to listOf("x", "'", "l"),
            "!?\uD83D\uDE00\uD835\uDC00\u0661" to listOf("!?\uD83D\uDE00", "\uD835\uDC00", "\u0661"),
        )
        for ((text, words) in expected) {
            val found = ArrayList<String>()
            var start = 0
            while (start < text.length) {
                val end = PreTokenizer.wordEnd(text, start)
                found.add(text.substring(start, end))
                start = end
            }
            assertEquals(words, found)
        }
    }

    @Test
    fun brokenBytesBecomeOneMarkForEachBrokenPart() {
        // Table 3-8 of the Unicode standard, and its neighbours.
        val cases = mapOf(
            "61 F1 80 80 E1 80 C2 62 80 63 80 BF 64" to "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd",
            "C0 AF E0 80 BF F0 81 82 41" to "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
            "ED A0 80 ED BF BF ED AF 41" to "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA",
            "F4 91 92 93 FF 41 80 BF 42" to "\uFFFD\uFFFD\uFFFD\uFFFD\uFFFDA\uFFFD\uFFFDB",
            "E1 80 E2 F0 91 92 F1 BF 41" to "\uFFFD\uFFFD\uFFFD\uFFFDA",
            "F0 9F 98 80 EF BF BF F4 8F BF BF" to "\uD83D\uDE00\uFFFF\uDBFF\uDFFF",
            "E2 82" to "\uFFFD",
            "" to "",
        )
        for ((hex, text) in cases) {
            val bytes = hex.split(' ').filter { it.isNotEmpty() }.map { it.toInt(16).toByte() }.toByteArray()
            assertEquals(text, decodeUtf8(bytes, bytes.size)) { hex }
        }
    }

    @Test
    fun utf8IsThatOfThePlatform() {
        val text = (0..0x10FFFF step 61).filter { it !in 0xD800..0xDFFF }.joinToString("") { String(Character.toChars(it)) }
        val bytes = ByteArray(text.length * 3)
        val size = encodeUtf8(text, 0, text.length, bytes)
        assertArrayEquals(text.toByteArray(Charsets.UTF_8), bytes.copyOf(size))
        assertEquals(text, decodeUtf8(bytes, size))
    }

    @Test
    fun theHeapGivesNumbersInOrder() {
        val random = Random(3)
        val numbers = LongArray(1000) { random.nextInt(300).toLong() shl 20 }
        val heap = LongHeap(1)
        numbers.forEach { heap.add(it) }
        assertArrayEquals(numbers.sortedArray(), LongArray(numbers.size) { heap.removeLeast() })
        assertEquals(true, heap.isEmpty())
    }

    @Test
    fun mergesAreThoseOfTheSimplestMethod() {
        val random = Random(5)
        repeat(300) { round ->
            // Tokens 0 to 3 are letters; each merge makes a token of two older ones.
            val count = 1 + random.nextInt(12)
            val lefts = IntArray(count)
            val rights = IntArray(count)
            for (rank in 0 until count) {
                lefts[rank] = random.nextInt(4 + rank)
                rights[rank] = random.nextInt(4 + rank)
            }
            val text = IntArray(random.nextInt(40)) { random.nextInt(4) }
            val results = IntArray(count) { 4 + it }
            // Of the same pair twice the later merge counts, as it does in a map.
            val ranks = (0 until count).associateBy { lefts[it] to rights[it] }
            val tokens = text.copyOf()
            val found = tokens.copyOf(Merges(lefts, rights, results).apply(tokens, tokens.size))
            assertEquals(mergeSimply(text.toList(), ranks), found.toList()) { "round $round" }
        }
    }

    private fun mergeSimply(text: List<Int>, ranks: Map<Pair<Int, Int>, Int>): List<Int> {
        var tokens = text
        while (true) {
            val place = tokens.indices.drop(1).filter { (tokens[it - 1] to tokens[it]) in ranks }
                .minByOrNull { ranks.getValue(tokens[it - 1] to tokens[it]) } ?: return tokens
            val rank = ranks.getValue(tokens[place - 1] to tokens[place])
            tokens = tokens.take(place - 1) + (4 + rank) + tokens.drop(place + 1)
        }
    }

    @Test
    fun anyTextComesBack() {
        val random = Random(11)
        repeat(500) {
            val text = StringBuilder()
            repeat(random.nextInt(30)) {
                var codePoint: Int
                do codePoint = random.nextInt(if (random.nextBoolean()) 0x300 else 0x110000) while (codePoint in 0xD800..0xDFFF)
                text.appendCodePoint(codePoint)
            }
            assertEquals(text.toString(), shipped.decode(shipped.encode(text.toString()))) { GoldenVectors.show(text.toString()) }
        }
    }

    @Test
    fun aWordIsTheSameTheSecondTime() {
        val fresh = GoldenVectors.tokenizer("shipped")
        // "Aa" and "BB" have the same hash; the cache must tell them apart.
        val texts = listOf("Aa BB Aa", "BB Aa BB", "xAa xBB", "Donaudampfschiff", "BB")
        val first = texts.map { fresh.encode(it).toList() }
        assertEquals(first, texts.map { fresh.encode(it).toList() })
        assertEquals(texts, first.map { fresh.decode(it.toIntArray()) })
        assertEquals(texts.map { GoldenVectors.tokenizer("shipped").encode(it).toList() }, first)
    }

    @Test
    fun longTextsTakeNoTimeInTheSquareOfTheirLength() {
        val texts = listOf("ab".repeat(100_000), "a".repeat(200_000), "\uD83D\uDE00".repeat(100_000), " ".repeat(200_000), "word ".repeat(50_000))
        for (text in texts) {
            assertTimeout(Duration.ofSeconds(10)) {
                assertEquals(text, shipped.decode(shipped.encode(text)))
                shipped.unfamiliar(text)
            }
        }
    }

    @Test
    fun specialTokensAreNoText() {
        val ids = shipped.encode("</s><s><pad>")
        assertEquals(true, ids.all { it > 2 })
        assertEquals("</s><s><pad>", shipped.decode(intArrayOf(1, 0) + ids + intArrayOf(2)))
        assertEquals(6000, shipped.vocabSize)
        assertThrows(Exception::class.java) { shipped.decode(intArrayOf(-1)) }
    }
}
