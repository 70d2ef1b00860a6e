package dev.litenlp.core.container

/** Smallest state of a lane between two symbols; one below it takes in a 16-bit word. */
internal const val STATE_MIN = 1 shl 16

/**
 * Start states of the lanes, then 16-bit words: the rest of a payload, coded by interleaved static rANS (Duda 2013,
 * arXiv 1311.2540; the interleaving is Giesen's, arXiv 1402.3392).
 *
 * @param size Number of symbols, which says how many lanes there are.
 */
internal class RansStream(payload: Payload, private val size: Int) {
    val bytes = payload.bytes
    val states: IntArray
    val end: Int

    /** Offset of the next word. */
    var next: Int

    init {
        val lanes = (size + Limits.SYMBOLS_PER_LANE - 1) / Limits.SYMBOLS_PER_LANE
        if (lanes == 0 || payload.rest % 2 != 0) {
            throw altered("expected states for $size weights and 16-bit words, found ${payload.rest} bytes")
        }
        val start = payload.take(4L * lanes, "states")
        states = IntArray(lanes) { littleEndianInt(bytes, start + 4 * it) }
        for (state in states) {
            if (state ushr 16 == 0) throw altered("states: expected at least $STATE_MIN, found $state")
        }
        end = start + 4 * lanes + payload.rest
        next = payload.take(payload.rest.toLong(), "words")
    }

    /**
     * Decodes every symbol.
     *
     * @param steps For each slot of all tables: the frequency of its symbol in the upper half, slot minus cumulative frequency in
     *   the lower.
     * @param tableOf Where the table of a symbol begins in [steps].
     * @param take Called with the index of each symbol and its slot in [steps].
     * @return The number that the stream carries besides, 0 to 65,535.
     */
    inline fun decode(scaleBits: Int, steps: IntArray, tableOf: (Int) -> Int, take: (Int, Int) -> Unit): Int {
        val mask = (1 shl scaleBits) - 1
        var lane = 0
        for (index in 0 until size) {
            // States are unsigned: f * (x / 2^P) + bias never exceeds 32 bits, so wrapping products are exact.
            val state = states[lane]
            val slot = tableOf(index) + (state and mask)
            val step = steps[slot]
            var following = (step ushr 16) * (state ushr scaleBits) + (step and 0xFFFF)
            if (following ushr 16 == 0) {
                if (next == end) throw altered("rANS stream: expected more words than there are")
                following = (following shl 16) or littleEndianShort(bytes, next)
                next += 2
            }
            states[lane] = following
            take(index, slot)
            if (++lane == states.size) lane = 0
        }
        return finish()
    }

    /** Checks how the stream ends. */
    fun finish(): Int {
        if (next != end) throw altered("rANS stream: words are left over after the last symbol")
        for (index in 1 until states.size) {
            if (states[index] != STATE_MIN) throw notAtStart()
        }
        if (states[0] ushr 17 != 0) throw notAtStart()
        return states[0] and 0xFFFF
    }

    private fun notAtStart() = altered("rANS stream: a lane does not end in its start state; expected an intact stream")
}

/** A codebook and its indices, entropy-coded. */
internal fun decodeKmeansRans(payload: Payload, size: Int): FloatArray {
    val reader = payload.bits("codebook")
    val centroids = readCodebook(reader)
    val scaleBits = Limits.MIN_SCALE_BITS + reader.field(SCALE_FIELD_BITS).toInt()
    val most = Limits.maxScaleBits(centroids.size)
    if (scaleBits > most) throw altered("scale bits: expected at most $most for ${centroids.size} centroids, found $scaleBits")
    val total = 1L shl scaleBits
    val differences = reader.numbers(centroids.size, -total..total)
    payload.skip(reader)
    val steps = IntArray(total.toInt())
    val values = FloatArray(total.toInt())
    var slot = 0
    var frequency = total / centroids.size
    for (symbol in centroids.indices) {
        frequency += differences.long(symbol)
        if (frequency < 1 || frequency > total - slot) throw altered("frequencies: expected a sum of $total")
        for (bias in 0 until frequency.toInt()) {
            steps[slot] = (frequency.toInt() shl 16) or bias
            values[slot++] = centroids[symbol]
        }
    }
    if (slot.toLong() != total) throw altered("frequencies: expected a sum of $total, found $slot")
    val result = FloatArray(size)
    val carried = RansStream(payload, size).decode(scaleBits, steps, { 0 }, { index, place -> result[index] = values[place] })
    if (carried != 0) throw altered("rANS stream: a lane does not end in its start state; expected an intact stream")
    return result
}

/** Width of the field with the scale bits of frequencies, of which the least is taken away. */
private const val SCALE_FIELD_BITS = 3
