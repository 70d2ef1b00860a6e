package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import kotlin.math.ln
import kotlin.math.pow

/**
 * Length penalty, the divisor of a log-probability: `((5 + length) / 6) ^ alpha` (GNMT, Wu et al. 2016, equation 14).
 *
 * @param length Tokens of the hypothesis, the end mark included.
 * @param alpha 0 for none; larger values favour longer hypotheses.
 */
fun lengthPenalty(length: Int, alpha: Double): Double = ((5.0 + length) / 6.0).pow(alpha)

/** The error of a model whose logits are no numbers. */
internal fun damagedModel() = LiteNlpException(
    Problem.RUNTIME_FAILED,
    "model: expected finite logits at every step, found NaN or infinity; its weights are damaged",
)

/**
 * Calls [tell] with each token that would complete an n-gram of [size] tokens which a hypothesis contains already; more than once
 * where there are several such n-grams.
 *
 * @param history Holds the hypothesis: [length] tokens from [offset] on.
 * @param size 0 for none.
 */
internal inline fun forEachRepeated(history: IntArray, offset: Int, length: Int, size: Int, tell: (token: Int) -> Unit) {
    if (size == 0) return
    val prefix = offset + length - size + 1
    for (start in offset..offset + length - size) {
        var same = 0
        while (same < size - 1 && history[start + same] == history[prefix + same]) same++
        if (same == size - 1) tell(history[start + same])
    }
}

/** The tokens that [forEachRepeated] tells for the whole of [history]. */
internal fun repeatedTokens(history: IntArray, size: Int): IntArray {
    val tokens = ArrayList<Int>()
    forEachRepeated(history, 0, history.size, size) { tokens += it }
    return tokens.toIntArray()
}

/**
 * Tokens that would complete an n-gram which a hypothesis contains already.
 *
 * Membership is a stamp per type, so that asking for it in the loop over the vocabulary costs one comparison and starting
 * the next row costs nothing.
 */
internal class BlockedTokens(vocabSize: Int, private val size: Int) {
    private val stamps = IntArray(if (size > 0) vocabSize else 0)
    private var stamp = 0

    /** Sets the hypothesis to [length] tokens of [history] from [offset] on. */
    fun read(history: IntArray, offset: Int, length: Int) {
        stamp++
        forEachRepeated(history, offset, length, size) { stamps[it] = stamp }
    }

    operator fun contains(token: Int): Boolean = size > 0 && stamps[token] == stamp
}

/**
 * The most probable tokens of one row of logits after the other, with their log-probabilities.
 *
 * Probabilities are the model's own: pad and begin mark take part in the softmax but are never produced. Among equal logits
 * the smaller id is first, which is also the one that is kept; NumPy's partition leaves that order open. Everything here is
 * laid out once per search: a step allocates nothing.
 *
 * @param vocabSize Types, special ones included.
 * @param beamSize Hypotheses per sentence.
 */
internal class RowTokens(private val vocabSize: Int, beamSize: Int) {
    /** Tokens kept of a row: [tokens] and [logits] have as many places. */
    val count = minOf(beamSize, vocabSize - SpecialTokens.COUNT)

    /** Best first. */
    val tokens = IntArray(count)

    /** Logits of [tokens]; -infinity where a token is blocked. */
    val logits = FloatArray(count)

    /** Logarithm of the sum of exponentials of the row. */
    var normalizer = 0.0
        private set

    /**
     * Ranks the row of [values] that starts at [offset].
     *
     * @throws LiteNlpException `RUNTIME_FAILED` if the logits are not finite where they should be.
     */
    fun rank(values: FloatArray, offset: Int, blocked: BlockedTokens) {
        var largest = maxOf(values[offset], values[offset + 1], values[offset + 2])
        var filled = 0
        for (token in SpecialTokens.COUNT until SpecialTokens.COUNT + count) {
            val value = values[offset + token]
            if (value > largest) largest = value
            insert(token, if (token in blocked) Float.NEGATIVE_INFINITY else value, filled++)
        }
        var least = logits[count - 1]
        for (token in SpecialTokens.COUNT + count until vocabSize) {
            val value = values[offset + token]
            if (value > least) {
                if (value > largest) largest = value
                if (token !in blocked) {
                    insert(token, value, count - 1)
                    least = logits[count - 1]
                }
            }
        }
        normalizer = largest + ln(sumOfExponentials(values, offset, largest))
        if (normalizer.isNaN() || normalizer.isInfinite()) throw damagedModel()
    }

    /** Puts a token behind those that are not smaller, [last] being the place that falls off. */
    private fun insert(token: Int, value: Float, last: Int) {
        var place = last
        while (place > 0 && logits[place - 1] < value) {
            logits[place] = logits[place - 1]
            tokens[place] = tokens[place - 1]
            place--
        }
        logits[place] = value
        tokens[place] = token
    }

    /** Each difference to [largest] and each exponential in single precision, their sum in double, as Python has it. */
    private fun sumOfExponentials(values: FloatArray, offset: Int, largest: Float): Double {
        var sum = 0.0
        for (index in offset until offset + vocabSize) {
            val shifted = values[index] - largest
            // Written so that NaN is summed too: it must not pass for a small number.
            if (!(shifted < SMALLEST_EXPONENT)) sum += exponential(shifted)
        }
        return sum
    }
}

/** Below it an exponential is 0 in single precision. */
private const val SMALLEST_EXPONENT = -103.98f

/** Parts in which an octave is tabulated. */
private const val PARTS = 32
private const val PARTS_BITS = 5
private const val PARTS_PER_UNIT = PARTS / 0.6931471805599453
private const val UNIT_PER_PART = 0.6931471805599453 / PARTS

/** Adding it to a number of at most 2^31 rounds that to an integer, which is then in the low bits. */
private const val ROUNDER = 6755399441055744.0

private val OCTAVE = DoubleArray(PARTS) { 2.0.pow(it / PARTS.toDouble()) }

/**
 * `e^x` rounded to single precision, for x from -104 to 0.
 *
 * The softmax over the vocabulary is most of what the search does in a step, and this takes two thirds of the time of the
 * platform's `exp`: a table of one octave and four terms of the series have a relative error of 2e-12, far below the rounding.
 */
internal fun exponential(x: Float): Float {
    val shifted = x * PARTS_PER_UNIT + ROUNDER
    val part = java.lang.Double.doubleToRawLongBits(shifted).toInt()
    val rest = x - (shifted - ROUNDER) * UNIT_PER_PART
    val series = 1.0 + rest * (1.0 + rest * (0.5 + rest * (1.0 / 6 + rest * (1.0 / 24))))
    val octaves = java.lang.Double.longBitsToDouble(((part shr PARTS_BITS) + 1023).toLong() shl 52)
    return (series * OCTAVE[part and (PARTS - 1)] * octaves).toFloat()
}
