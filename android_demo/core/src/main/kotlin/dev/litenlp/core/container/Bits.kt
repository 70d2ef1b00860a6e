package dev.litenlp.core.container

/** Width of the field with the number of bits of a remainder; its largest value says that all numbers are equal. */
private const val WIDTH_BITS = 5
private const val CONSTANT = (1 shl WIDTH_BITS) - 1

/** Bits of the largest number, before its sign goes to the lowest one. */
private const val NUMBER_BITS = 32

/**
 * Reads fields, numbers and lists from a string of bits, the lowest bit of a byte first: `compress/FORMAT.md`, "Bit strings".
 *
 * @param start Offset in [bytes] of the first byte; the string ends before [end] at the latest, and other bytes may follow it.
 */
internal class BitReader(private val bytes: ByteArray, private val start: Int, end: Int, private val what: String) {
    private var at = 8L * start
    private val end = 8L * end

    /** An unsigned number of [width] bits, at most 32. */
    fun field(width: Int): Long {
        if (end - at < width) throw altered("$what: expected $width bits more, found ${end - at}")
        var value = 0L
        for (place in 0 until width) value = value or (bit().toLong() shl place)
        return value
    }

    /** An unsigned number below 2^32 - 1: Elias's gamma code of the number that follows it. */
    fun number(): Long {
        for (above in 0 until NUMBER_BITS) {
            if (field(1) == 1L) return (1L shl above) + field(above) - 1
        }
        throw altered("$what: expected numbers of at most $NUMBER_BITS bits, found a longer one")
    }

    /** A number with its sign. */
    fun signed(): Long = unfold(number())

    /**
     * A list of [count] signed numbers within [range]. One whose numbers are all equal may be of any length, and takes no memory.
     */
    fun numbers(count: Int, range: LongRange): Numbers {
        if (count == 0) return Numbers(null, 0)
        val width = field(WIDTH_BITS).toInt()
        val base = signed()
        if (width == CONSTANT) {
            checkWithin(range, base)
            return Numbers(null, base)
        }
        if (count > Limits.MAX_LISTED) {
            throw altered("$what: expected at most ${Limits.MAX_LISTED} numbers in a list, found $count")
        }
        val values = LongArray(count) { quotient(width) shl width }
        var any = 0L
        for (index in values.indices) {
            val folded = values[index] or field(width)
            any = any or folded
            values[index] = base + unfold(folded)
            checkWithin(range, values[index])
        }
        if (any == 0L) throw altered("$what: expected a list of equal numbers in its short form")
        return Numbers(values, base)
    }

    /** Checks that the rest of the last byte is clear; returns the number of bytes read. */
    fun finish(): Int {
        if (field(((8 - at % 8) % 8).toInt()) != 0L) throw altered("$what: expected zeros after the last number")
        return (at / 8).toInt() - start
    }

    /** Zeros up to the next one. */
    private fun quotient(width: Int): Long {
        var zeros = 0L
        while (true) {
            if (at == end) throw altered("$what: expected more numbers than there are")
            if (bit() == 1) break
            zeros++
        }
        if (zeros shr (NUMBER_BITS + 1 - width) != 0L) throw altered("$what: expected numbers of at most $NUMBER_BITS bits")
        return zeros
    }

    private fun bit(): Int {
        val bit = (bytes[(at / 8).toInt()].toInt() ushr (at % 8).toInt()) and 1
        at++
        return bit
    }

    private fun checkWithin(range: LongRange, value: Long) {
        if (value !in range) throw altered("$what: expected ${range.first} to ${range.last}, found $value")
    }

    /** 0, 1, 2, 3, 4 to 0, -1, 1, -2, 2. */
    private fun unfold(folded: Long): Long = if (folded and 1L == 0L) folded shr 1 else -(folded shr 1) - 1
}

/** A list of numbers, which are all [base] if there are no [values]. */
internal class Numbers(private val values: LongArray?, private val base: Long) {
    operator fun get(index: Int): Int = (if (values == null) base else values[index]).toInt()

    /** Where an [Int] may be too small. */
    fun long(index: Int): Long = if (values == null) base else values[index]

    /** The different numbers. */
    fun distinct(): Set<Int> = values?.mapTo(HashSet()) { it.toInt() } ?: setOf(base.toInt())

    fun min(): Int = (values?.min() ?: base).toInt()

    fun max(): Int = (values?.max() ?: base).toInt()
}
