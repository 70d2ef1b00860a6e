package dev.litenlp.core.metrics

import dev.litenlp.core.search.BeamDouble
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class MeteredEngineTest {
    private val work = GraphWork.fromJson(JSONObject(SHIPPED_WORK))

    @Test
    fun macsAreThoseOfTheRowsAndStepsThatWereRun() {
        val inner = backwards()
        val metered = MeteredEngine(inner, work)
        val sources = listOf(intArrayOf(3, 4, 5), intArrayOf(6))
        assertEquals(
            listOf(listOf(5, 4, 3), listOf(6)),
            search(metered, sources, SearchOptions()).map { it.tokens.toList() },
        )
        // Two rows padded to four tokens; the short sentence leaves the batch after two of the four steps.
        assertEquals(4, metered.steps)
        assertEquals(6, inner.fedRows)
        assertEquals(2 * work.encodeMacs(4, 16) + 6 * work.stepMacs(4, 16), metered.macs)

        metered.reset()
        search(metered, listOf(intArrayOf(6)), SearchOptions())
        assertEquals(work.macs(2, 12, 2), metered.macs)
        assertEquals(0, inner.open)
    }

    @Test
    fun aBeamCountsEveryHypothesis() {
        val inner = backwards()
        val metered = MeteredEngine(inner, work)
        search(metered, listOf(intArrayOf(3, 4, 5)), SearchOptions(beamSize = 3))
        assertEquals(work.macs(4, 16, inner.fedRows), metered.macs)
        assertEquals(inner.steps.toLong(), metered.steps)
    }

    @Test
    fun withoutTheWorkOnlyStepsAreCounted() {
        val metered = MeteredEngine(backwards(), null)
        search(metered, listOf(intArrayOf(3)), SearchOptions())
        assertEquals(0, metered.macs)
        assertEquals(2, metered.steps)
    }

    @Test
    fun aSearchByTheEngineCountsTheSlotsThatEachStepHas() {
        val inner = BeamDouble(backwards())
        var nowNs = 0L
        val metered = MeteredEngine(inner, work) { ++nowNs }
        val sources = listOf(intArrayOf(3, 4, 5), intArrayOf(6))
        assertEquals(
            listOf(listOf(5, 4, 3), listOf(6)),
            search(metered, sources, SearchOptions()).map { it.tokens.toList() },
        )
        var expected = 2 * work.encodeMacs(4, 16)
        for ((call, following) in inner.calls.zip(inner.calls.drop(1).map { it.step } + metered.steps.toInt())) {
            for (slots in call.step + 1..following) expected += call.tokens.size * work.stepMacs(4, slots)
        }
        assertEquals(expected, metered.macs)
        assertEquals(1, metered.firstStepEndNs)
        assertEquals(listOf(2, 1), inner.calls.map { it.tokens.size })
    }
}
