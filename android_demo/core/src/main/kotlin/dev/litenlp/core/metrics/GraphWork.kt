package dev.litenlp.core.metrics

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest
import java.math.BigInteger
import org.json.JSONArray
import org.json.JSONObject

/** Kinds of work that a manifest tells apart; all of them count as Mult-Adds. */
private val WORK_KINDS = setOf("matmul", "convolution", "contraction", "layer_norm", "batch_norm")

/** Highest power of either size. */
private const val DEGREE = 2

/**
 * Mult-Adds of the two graphs of a bundle for one row, as polynomials of the sizes they are run at.
 *
 * Sizes are those that an engine is given: source tokens with the end mark, and the capacity of a decoding. A translation of
 * 30 to 30 tokens, as `lite-nlp budget` counts it, is `macs(30, 30, 30)`.
 */
class GraphWork private constructor(private val encode: Polynomial, private val decodeStep: Polynomial) {
    /** Of encoding one row of [source] tokens, padding included, for decodings of [capacity] steps. */
    fun encodeMacs(source: Int, capacity: Int): Long = saturated(encode.value(source, capacity))

    /** Of one decoder step of one row: a step attends over all [source] tokens and all [capacity] slots, empty ones too. */
    fun stepMacs(source: Int, capacity: Int): Long = saturated(decodeStep.value(source, capacity))

    /**
     * Of the translation of one source.
     *
     * @param steps Decoder steps, each counted once for every hypothesis.
     */
    fun macs(source: Int, capacity: Int, steps: Int): Long {
        val perStep = decodeStep.value(source, capacity)
        return saturated(encode.value(source, capacity) + perStep.multiply(BigInteger.valueOf(steps.toLong())))
    }

    companion object {
        /**
         * Reads one runtime's part of a manifest's `graphs`.
         *
         * @throws LiteNlpException `UNSUPPORTED` if it is anything else.
         */
        fun fromJson(json: JSONObject): GraphWork = GraphWork(polynomial(json, "encode"), polynomial(json, "decode_step"))

        /** The work of a bundle's graphs for [runtime], null if the manifest does not record it. */
        fun of(manifest: Manifest, runtime: String): GraphWork? = manifest.graphs.optJSONObject(runtime)?.let { fromJson(it) }

        private fun polynomial(json: JSONObject, graph: String): Polynomial {
            val kinds = json.optJSONObject(graph) ?: refuse("an object for $graph", json.opt(graph))
            val terms = ArrayList<Term>()
            for (kind in kinds.keys()) {
                if (kind !in WORK_KINDS) refuse("kinds of work among $WORK_KINDS", kind)
                val list = kinds.optJSONArray(kind) ?: refuse("a list of terms for $kind", kinds.opt(kind))
                for (index in 0 until list.length()) terms += term(list.opt(index))
            }
            return Polynomial(terms)
        }

        private fun term(value: Any?): Term {
            val parts = (value as? JSONArray)?.takeIf { it.length() == 3 }?.let { list -> List(3) { list.opt(it) } }
            if (parts == null || parts.any { it !is Int && it !is Long }) refuse("terms of three integers", value)
            val (coefficient, source, capacity) = parts.map { (it as Number).toLong() }
            if (source !in 0..DEGREE || capacity !in 0..DEGREE) refuse("powers of 0 to $DEGREE", value)
            return Term(coefficient, source.toInt(), capacity.toInt())
        }

        private fun refuse(expected: String, found: Any?): Nothing =
            throw LiteNlpException(Problem.UNSUPPORTED, "work of graphs: expected $expected, found $found")

        /** No manifest of a real model comes near this bound, and one that is made up must not wrap around. */
        private fun saturated(value: BigInteger): Long =
            value.max(BigInteger.ZERO).min(BigInteger.valueOf(Long.MAX_VALUE)).toLong()
    }
}

private class Term(val coefficient: Long, val sourcePower: Int, val capacityPower: Int)

/** A sum of products of powers of the source length and the capacity, with integer coefficients. */
private class Polynomial(private val terms: List<Term>) {
    fun value(source: Int, capacity: Int): BigInteger {
        val sourceSize = BigInteger.valueOf(source.toLong())
        val capacitySize = BigInteger.valueOf(capacity.toLong())
        return terms.fold(BigInteger.ZERO) { sum, term ->
            sum + BigInteger.valueOf(term.coefficient) * sourceSize.pow(term.sourcePower) * capacitySize.pow(term.capacityPower)
        }
    }
}
