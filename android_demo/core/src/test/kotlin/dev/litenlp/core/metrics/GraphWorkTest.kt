package dev.litenlp.core.metrics

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class GraphWorkTest {
    private val shipped = GraphWork.fromJson(JSONObject(SHIPPED_WORK))

    @Test
    fun aTranslationOfThirtyTokensIsWhatTheExporterCounted() {
        // What the method needs, 142,080,000, and what the graphs do besides: 445,440 for slots of the caches that are still
        // empty (435 pairs, 4 layers, 2 x 128 channels) and 245,760 for convolutions applied as band matrices.
        assertEquals(142_771_200, shipped.macs(30, 30, 30))
    }

    @Test
    fun otherLengthsAreWhatPythonComputes() {
        assertEquals(4_625_408, shipped.macs(1, 1, 1))
        assertEquals(2_609_577_984, shipped.macs(256, 512, 512))
        assertEquals(70_052_864, shipped.macs(7, 19, 19))
        // Four hypotheses: every step four times, the encoder once.
        assertEquals(247_681_280, shipped.macs(7, 19, 4 * 19))
    }

    @Test
    fun theWholeIsTheEncoderAndTheSteps() {
        for ((source, capacity, steps) in listOf(Triple(1, 1, 0), Triple(9, 33, 7), Triple(200, 410, 410))) {
            val sum = shipped.encodeMacs(source, capacity) + steps * shipped.stepMacs(source, capacity)
            assertEquals(sum, shipped.macs(source, capacity, steps))
        }
    }

    @Test
    fun productsOfPowersAndNegativeCoefficients() {
        val work = GraphWork.fromJson(JSONObject("""{"encode": {}, "decode_step": {"contraction": [[3, 2, 1], [-5, 0, 2]]}}"""))
        assertEquals(3L * 49 * 4 - 5 * 16, work.stepMacs(7, 4))
        assertEquals(0, work.encodeMacs(7, 4))
    }

    @Test
    fun madeUpCoefficientsDoNotWrapAround() {
        val huge = GraphWork.fromJson(
            JSONObject("""{"encode": {"matmul": [[${Long.MAX_VALUE}, 2, 2]]}, "decode_step": {"matmul": [[-1, 0, 0]]}}"""),
        )
        assertEquals(Long.MAX_VALUE, huge.macs(512, 512, 512))
        assertEquals(0, huge.stepMacs(1, 1))
    }

    @Test
    fun whatIsNoWorkIsRefused() {
        val wrong = mapOf(
            """{"encode": {}}""" to "expected an object for decode_step, found null",
            """{"encode": [], "decode_step": {}}""" to "expected an object for encode",
            """{"encode": {"magic": []}, "decode_step": {}}""" to "expected kinds of work among",
            """{"encode": {"matmul": {}}, "decode_step": {}}""" to "expected a list of terms for matmul",
            """{"encode": {"matmul": [[1, 2]]}, "decode_step": {}}""" to "expected terms of three integers, found [1,2]",
            """{"encode": {"matmul": [[1.5, 2, 0]]}, "decode_step": {}}""" to "expected terms of three integers",
            """{"encode": {"matmul": [["1", 2, 0]]}, "decode_step": {}}""" to "expected terms of three integers",
            """{"encode": {"matmul": [[1, 3, 0]]}, "decode_step": {}}""" to "expected powers of 0 to 2, found [1,3,0]",
            """{"encode": {"matmul": [[1, 0, -1]]}, "decode_step": {}}""" to "expected powers of 0 to 2",
        )
        for ((json, message) in wrong) {
            val error = assertThrows(LiteNlpException::class.java) { GraphWork.fromJson(JSONObject(json)) }
            assertEquals(Problem.UNSUPPORTED, error.problem)
            assertTrue(error.message.startsWith("work of graphs: $message")) { error.message }
        }
    }

    @Test
    fun aManifestMayNotSay() {
        assertNull(GraphWork.of(manifest(), "onnx"))
        val one = manifest(graphs = """{"onnx": $SHIPPED_WORK}""")
        assertEquals(142_771_200, GraphWork.of(one, "onnx")?.macs(30, 30, 30))
        assertNull(GraphWork.of(one, "executorch"))
    }
}
