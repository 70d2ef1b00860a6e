package dev.litenlp.core.container

import dev.litenlp.core.tokenizer.ByteLevel
import java.io.ByteArrayOutputStream

/** Smallest range of the coder between two bits; one below it takes in a byte. */
private const val RANGE_MIN = 1L shl 24

/** Bytes of the sizes in front. */
private const val SIZES_BYTES = 7

/** The text of options is some thousand bytes. */
private const val MAX_SKELETON_BYTES = 1 shl 16

/**
 * A `tokenizer.json` that is stored as its merges and the text around them: `compress/FORMAT.md`, "Merges".
 *
 * @param size Bytes that the document must have.
 */
internal fun decodeVocabulary(payload: Payload, size: Long): ByteArray {
    val bytes = payload.bytes
    val at = payload.take(SIZES_BYTES.toLong(), "sizes")
    val first = littleEndianShort(bytes, at)
    val merges = littleEndianShort(bytes, at + 2) or ((bytes[at + 4].toInt() and 0xFF) shl 16)
    val stored = littleEndianShort(bytes, at + 5)
    if (first == 0 || merges > Limits.MAX_CODED_MERGES) {
        throw altered("expected special tokens and at most ${Limits.MAX_CODED_MERGES} merges, found $first and $merges")
    }
    val skeleton = Inflation(bytes, payload.take(stored.toLong(), "text"), stored, "text").use { stream ->
        stream.takeUpTo(MAX_SKELETON_BYTES).also { stream.finish() }
    }
    val cuts = skeleton.indices.filter { skeleton[it] == 0.toByte() }
    if (cuts.size != 2 || skeleton.size == MAX_SKELETON_BYTES) {
        throw altered("expected a zlib stream of three parts of text, found ${cuts.size + 1}")
    }
    val rest = payload.rest
    val start = payload.take(rest.toLong(), "merges")
    val texts = MergeTexts(first, size)
    val decoder = MergeDecoder(bytes, start, start + rest, first, merges)
    repeat(merges) { texts.add(decoder.next(0), decoder.next(1)) }
    decoder.finish()
    val document = ByteArrayOutputStream()
    document.write(skeleton, 0, cuts[0])
    document.write(texts.entries())
    document.write(skeleton, cuts[0] + 1, cuts[1] - cuts[0] - 1)
    document.write(texts.pairs())
    document.write(skeleton, cuts[1] + 1, skeleton.size - cuts[1] - 1)
    if (document.size().toLong() != size) throw altered("expected a document of $size bytes, found ${document.size()}")
    return document.toByteArray()
}

/** The text of types and merges, as JSON with an indent of one. */
private class MergeTexts(private val first: Int, private val size: Long) {
    private val types = ByteLevel.alphabet.sorted().mapTo(ArrayList()) { it.toString() }
    private val known = HashSet(types)
    private val pairs = StringBuilder()

    fun add(left: Int, right: Int) {
        if (left - first !in types.indices || right - first !in types.indices) {
            throw altered("expected ids of types before the merge, found $left and $right")
        }
        val parts = types[left - first] to types[right - first]
        if (pairs.isNotEmpty()) pairs.append(',')
        pairs.append("\n   [\n    \"").append(escaped(parts.first))
        pairs.append("\",\n    \"").append(escaped(parts.second)).append("\"\n   ]")
        val made = parts.first + parts.second
        if (made.length > Limits.MAX_TOKEN_CHARACTERS || pairs.length > size) {
            throw altered("expected a document of $size bytes, found more text")
        }
        if (known.add(made)) types.add(made)
    }

    fun entries(): ByteArray {
        val text = StringBuilder()
        for ((place, type) in types.withIndex()) text.append(",\n   \"").append(escaped(type)).append("\": ").append(first + place)
        return text.toString().toByteArray()
    }

    fun pairs(): ByteArray = pairs.toString().toByteArray()

    private fun escaped(text: String): String = text.replace("\\", "\\\\").replace("\"", "\\\"")
}

/** Ids bit by bit, with probabilities that adapt; the range coder is that of LZMA. */
private class MergeDecoder(private val bytes: ByteArray, start: Int, private val end: Int, first: Int, merges: Int) {
    private val width = Int.SIZE_BITS - Integer.numberOfLeadingZeros(first + ByteLevel.alphabet.size + merges - 1)

    /** For the first and the second id of a merge: how often each bit was seen, by the bits before it. */
    private val zeros = Array(2) { IntArray(1 shl width) { 1 } }
    private val ones = Array(2) { IntArray(1 shl width) { 1 } }
    private var at = start
    private var code = 0L
    private var range = 0xFFFFFFFFL

    init {
        repeat(4) { code = (code shl 8) or byte() }
    }

    fun next(which: Int): Int {
        var node = 1
        repeat(width) {
            val seen = zeros[which][node]
            val bound = range / (seen + ones[which][node]) * seen
            if (code < bound) {
                range = bound
                zeros[which][node]++
                node = 2 * node
            } else {
                code -= bound
                range -= bound
                ones[which][node]++
                node = 2 * node + 1
            }
            while (range < RANGE_MIN) {
                code = (code shl 8) or byte()
                range = range shl 8
            }
        }
        return node - (1 shl width)
    }

    /** Checks that the merges end with their bytes. */
    fun finish() {
        if (code != 0L || at != end) throw altered("expected the merges to end with their bytes")
    }

    /** The next byte; beyond the end are zeros, and [finish] finds that one was taken. */
    private fun byte(): Long {
        val byte = if (at < end) bytes[at].toLong() and 0xFF else 0L
        at++
        return byte
    }
}
