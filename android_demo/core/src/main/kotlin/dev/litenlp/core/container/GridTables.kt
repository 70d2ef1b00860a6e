package dev.litenlp.core.container

import kotlin.math.floor
import kotlin.math.max
import kotlin.math.min
import kotlin.math.sqrt

/**
 * Tables of the entropy coder for the levels of a grid, by the arithmetic of `compress/FORMAT.md`, "Tables": integers, and sums,
 * products, quotients and square roots of doubles, which are the same bits everywhere.
 */
internal object GridTables {
    const val SCALE_BITS = 12
    const val SHAPES = 6
    const val CLASSES = 73
    const val TILTS = 8
    const val MAX_MAGNITUDE = 255
    const val ESCAPE: Short = Short.MIN_VALUE
    val TILT_RANGE = -32L..31L

    private const val FIRST_CLASS = -48
    private const val FIRST_SCALE = -320
    private const val SCALES = 641
    private const val EXPONENT_BIAS = 1024
    private const val MAX_EXPONENT = 1 shl 14

    /** Frequencies that are left for symbols that a tilt brings below 1, and for the escape. */
    private const val SPARE = 2 * TILTS + 2

    private val mantissas: LongArray by lazy { powers(8).let { all -> LongArray(256) { floor(all[it] * (1L shl 30)).toLong() } } }

    /** By shape, class and magnitude: the exponent of a level's weight, in 256ths of an octave. */
    private val family: Array<Array<IntArray>> by lazy { Array(SHAPES, ::shape) }

    /**
     * Fills the slots of one table.
     *
     * @param at Where the table begins in [steps] and [levels]; it has 2^12 slots.
     * @return The greatest magnitude that it holds.
     */
    fun fill(shape: Int, tilts: Numbers, klass: Int, steps: IntArray, levels: ShortArray, at: Int): Int {
        val exponents = family[shape][klass]
        val weights = LongArray(MAX_MAGNITUDE + 1) {
            weight(exponents[it] + EXPONENT_BIAS + if (it < TILTS) 32 * tilts[it] else 0)
        }
        val total = 2 * weights.sum() - weights[0]
        val scale = (1L shl SCALE_BITS) - SPARE
        val reach = weights.indices.last { weights[it] * scale >= total }
        // Of the levels 0, 1, -1, 2, -2 and so on, and of the escape.
        val frequencies = IntArray(2 * reach + 2)
        var sum = 0L
        var end = 0L
        for (symbol in 0..2 * reach) {
            sum += weights[(symbol + 1) / 2]
            val following = sum * scale / total
            frequencies[symbol] = max(1L, following - end).toInt()
            end = following
        }
        frequencies[2 * reach + 1] = max(1L, scale - end).toInt()
        frequencies[0] += (1 shl SCALE_BITS) - frequencies.sum()
        var slot = at
        for ((symbol, frequency) in frequencies.withIndex()) {
            val level = when {
                symbol > 2 * reach -> ESCAPE
                symbol % 2 == 1 -> (symbol / 2 + 1).toShort()
                else -> (-(symbol / 2)).toShort()
            }
            for (bias in 0 until frequency) {
                steps[slot] = (frequency shl 16) or bias
                levels[slot++] = level
            }
        }
        return reach
    }

    private fun weight(exponent: Int): Long = mantissas[exponent and 255] shr min(exponent shr 8, 31)

    /** 2^(-i / n) for i below n = 2^[halvings], by square roots and products. */
    private fun powers(halvings: Int): DoubleArray {
        var step = 0.5
        repeat(halvings) { step = sqrt(step) }
        val all = DoubleArray(1 shl halvings)
        all[0] = 1.0
        for (index in 1 until all.size) all[index] = all[index - 1] * step
        return all
    }

    /** For each class the exponents of the first scale whose mean magnitude is large enough. */
    private fun shape(number: Int): Array<IntArray> {
        val fine = powers(5)
        val coarse = powers(2)
        val found = ArrayList<IntArray>()
        var index = FIRST_SCALE
        while (found.size < CLASSES && index < FIRST_SCALE + SCALES) {
            val inverse = fine[Math.floorMod(index, 32)] * Math.scalb(1.0, -Math.floorDiv(index, 32))
            val exponents = IntArray(MAX_MAGNITUDE + 1) { min(floor(256.0 * raise(number, max(it - 0.5, 0.0) * inverse)), MAX_EXPONENT.toDouble()).toInt() }
            val mean = mean(exponents)
            while (found.size < CLASSES) {
                val octaves = FIRST_CLASS + found.size
                val target = coarse[Math.floorMod(-octaves, 4)] * Math.scalb(1.0, -Math.floorDiv(-octaves, 4))
                if (mean < target) break
                found.add(exponents)
            }
            index++
        }
        return found.toTypedArray()
    }

    private fun mean(exponents: IntArray): Double {
        var total = 0L
        var sum = 0L
        for (magnitude in exponents.indices) {
            val weight = weight(exponents[magnitude])
            total += if (magnitude == 0) weight else 2 * weight
            sum += 2 * weight * magnitude
        }
        return sum.toDouble() / total.toDouble()
    }

    /** To the power 1/2, 3/4, 1, 5/4, 3/2 or 2. */
    private fun raise(shape: Int, value: Double): Double {
        val half = sqrt(value)
        return when (shape) {
            0 -> half
            1 -> half * sqrt(half)
            2 -> value
            3 -> value * sqrt(half)
            4 -> value * half
            else -> value * value
        }
    }
}
