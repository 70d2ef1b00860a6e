package dev.litenlp.core.search

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.util.zip.GZIPInputStream
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

/** The hypotheses that Python's search finds on models made of a formula (`android_demo/tools/golden/search.py`). */
class GoldenSearchTest {
    private val vectors = GZIPInputStream(javaClass.getResourceAsStream("/golden/search.json.gz")!!).use {
        JSONObject(it.reader(Charsets.UTF_8).readText())
    }

    @Test
    fun hypothesesAreThoseOfPython() {
        val cases = vectors.getJSONArray("cases").objects()
        assertTrue(cases.size > 400) { "expected hundreds of cases, found ${cases.size}" }
        for ((index, case) in cases.withIndex()) {
            val engine = engine(case.getJSONObject("model"))
            for (searching in listOf(engine, BeamDouble(engine))) {
                val found = search(searching, sources(case), options(case.getJSONObject("options")))
                val about = { "case $index: ${case.getJSONObject("model")} ${case.getJSONObject("options")}" }
                assertEquals(case.getJSONArray("tokens").rows().map { it.toList() }, found.map { it.tokens.toList() }, about)
                val scores = case.getJSONArray("scores")
                found.forEachIndexed { row, hypothesis ->
                    assertEquals(scores.getDouble(row), hypothesis.score, 1e-5, about)
                }
            }
        }
    }

    @Test
    fun whatPythonRefusesIsRefused() {
        val cases = vectors.getJSONArray("not_finite").objects()
        assertEquals(3, cases.size)
        for (case in cases) {
            val engine = engine(case.getJSONObject("model"))
            val error = assertThrows(LiteNlpException::class.java) {
                search(engine, sources(case), options(case.getJSONObject("options")))
            }
            assertEquals(Problem.RUNTIME_FAILED, error.problem)
            assertEquals(case.getJSONObject("model").getInt("nan_at_step"), engine.steps)
        }
    }

    private fun sources(case: JSONObject): List<IntArray> = case.getJSONArray("sources").rows()

    private fun options(json: JSONObject) = SearchOptions(
        beamSize = json.getInt("beam_size"),
        maxLengthRatio = json.getDouble("max_length_ratio"),
        maxLengthExtra = json.getInt("max_length_extra"),
        maxSteps = if (json.isNull("max_steps")) null else json.getInt("max_steps"),
        minLength = json.getInt("min_length"),
        lengthPenalty = json.getDouble("length_penalty"),
        noRepeatNgram = json.getInt("no_repeat_ngram"),
    )

    private fun engine(model: JSONObject): ModelEngine {
        val vocabSize = model.getInt("vocab_size")
        val levels = model.getLong("levels")
        val unit = 1f / (1 shl model.getInt("shift"))
        val never = model.getJSONArray("never").integers()
        val endBonus = model.getDouble("end_bonus").toFloat()
        return ModelEngine(vocabSize) { source, produced ->
            val hash = fold(model.getLong("seed"), source + SpecialTokens.EOS + SpecialTokens.BOS + produced)
            val logits = FloatArray(vocabSize) { token ->
                (mix(hash xor (token * 0x9E3779B1L and MASK)) % levels) * unit
            }
            for (token in never) logits[token] = Float.NEGATIVE_INFINITY
            if (model.getBoolean("end_is_best")) {
                logits[SpecialTokens.EOS] = logits.drop(SpecialTokens.COUNT).max()
            } else {
                logits[SpecialTokens.EOS] += endBonus
            }
            if (produced.size + 1 == model.getInt("nan_at_step")) logits.fill(Float.NaN)
            logits
        }
    }

    private fun fold(seed: Long, tokens: IntArray): Long =
        tokens.fold(seed) { value, token -> (value * 0x01000193L + token + 1) and MASK }

    private fun mix(value: Long): Long {
        val first = ((value xor (value shr 16)) * 0x85EBCA6BL) and MASK
        val second = ((first xor (first shr 13)) * 0xC2B2AE35L) and MASK
        return second xor (second shr 16)
    }

    private fun JSONArray.objects(): List<JSONObject> = List(length()) { getJSONObject(it) }

    private fun JSONArray.integers(): IntArray = IntArray(length()) { getInt(it) }

    private fun JSONArray.rows(): List<IntArray> = List(length()) { getJSONArray(it).integers() }

    private companion object {
        const val MASK = 0xFFFFFFFFL
    }
}
