package dev.litenlp.core.container

/** Smallest state of a lane between two symbols; one below it takes in a 16-bit word. */
private const val STATE_MIN = 1 shl 16

/** A frequency is at most 2^15, which takes three groups of seven bits. */
private const val MAX_VARINT_BYTES = 3

/**
 * A codebook and its indices, entropy-coded by interleaved static rANS (Duda 2013, arXiv 1311.2540; the interleaving is
 * Giesen's, arXiv 1402.3392).
 */
internal fun decodeKmeansRans(payload: Payload, size: Int): FloatArray {
    val codebook = Codebook.read(payload)
    val scaleBits = codebook.bits
    val most = Limits.maxScaleBits(codebook.centroids.size)
    if (scaleBits !in Limits.MIN_SCALE_BITS..most) {
        throw altered(
            "scale bits: expected ${Limits.MIN_SCALE_BITS} to $most for ${codebook.centroids.size} centroids, found $scaleBits",
        )
    }
    val frequencies = LongArray(codebook.centroids.size) { readVarint(payload, "frequencies") }
    if (frequencies.sum() != 1L shl scaleBits) {
        throw altered("frequencies: expected a sum of ${1 shl scaleBits}, found ${frequencies.sum()}")
    }
    val lanes = littleEndianInt(payload.bytes, payload.take(4, "number of lanes")).toLong() and 0xFFFFFFFFL
    if (lanes < 1 || lanes > size || size > lanes * Limits.MAX_SYMBOLS_PER_LANE) {
        throw altered("lanes: expected ${Limits.MAX_SYMBOLS_PER_LANE} weights at most for each, found $lanes for $size")
    }
    val statesStart = payload.take(4 * lanes, "states")
    val states = IntArray(lanes.toInt()) { littleEndianInt(payload.bytes, statesStart + 4 * it) }
    for (state in states) {
        if (state ushr 16 == 0) throw altered("states: expected at least $STATE_MIN, found $state")
    }
    if (payload.rest % 2 != 0) throw altered("words: expected an even number of bytes, found ${payload.rest}")
    val end = payload.rest
    val words = payload.take(end.toLong(), "words")
    return RansTable(codebook.centroids, frequencies, scaleBits).decode(payload.bytes, words, words + end, states, size)
}

/** Table of the 2^[scaleBits] slots: symbol, frequency and offset of each. */
private class RansTable(centroids: FloatArray, frequencies: LongArray, private val scaleBits: Int) {
    /** Frequency of the slot's symbol in the upper half, slot minus cumulative frequency in the lower. */
    private val steps = IntArray(1 shl scaleBits)
    private val values = FloatArray(1 shl scaleBits)

    /** The slots of the most frequent index, the first of several: what fills the last row. */
    private val padding: IntRange

    init {
        var slot = 0
        for ((symbol, frequency) in frequencies.withIndex()) {
            for (bias in 0 until frequency.toInt()) {
                steps[slot] = (frequency.toInt() shl 16) or bias
                values[slot] = centroids[symbol]
                slot++
            }
        }
        val frequent = frequencies.indices.maxBy { frequencies[it] }
        val first = frequencies.take(frequent).sum().toInt()
        padding = first until first + frequencies[frequent].toInt()
    }

    /** Decodes [size] weights, row by row of lanes; the 16-bit words lie in [bytes] from [start] until [end]. */
    fun decode(bytes: ByteArray, start: Int, end: Int, states: IntArray, size: Int): FloatArray {
        val result = FloatArray(size)
        val mask = (1 shl scaleBits) - 1
        var next = start
        var row = 0
        while (row < size) {
            for (lane in states.indices) {
                // States are unsigned: f * (x / 2^P) + bias never exceeds 32 bits, so wrapping products are exact.
                val state = states[lane]
                val slot = state and mask
                val step = steps[slot]
                var following = (step ushr 16) * (state ushr scaleBits) + (step and 0xFFFF)
                if (following ushr 16 == 0) {
                    if (next == end) throw altered("rANS stream: expected more words than there are")
                    following = (following shl 16) or littleEndianShort(bytes, next)
                    next += 2
                }
                states[lane] = following
                if (row + lane < size) {
                    result[row + lane] = values[slot]
                } else if (slot !in padding) {
                    throw altered("rANS stream: expected the most frequent index as padding of the last row")
                }
            }
            row += states.size
        }
        if (next != end) throw altered("rANS stream: words are left over after the last symbol")
        if (states.any { it != STATE_MIN }) {
            throw altered("rANS stream: a lane does not end in its start state; expected an intact stream")
        }
        return result
    }
}

/** Unsigned LEB128 in its shortest form: seven bits a byte, lowest first, the top bit set on all but the last. */
private fun readVarint(payload: Payload, what: String): Long {
    var value = 0L
    for (index in 0 until MAX_VARINT_BYTES) {
        val byte = payload.byte(what)
        value = value or ((byte and 0x7F).toLong() shl (7 * index))
        if (byte < 0x80) {
            if (byte == 0 && index > 0) throw altered("$what: expected numbers in their shortest form, found one with zeros on top")
            return value
        }
    }
    throw altered("$what: expected at most $MAX_VARINT_BYTES bytes per number")
}
