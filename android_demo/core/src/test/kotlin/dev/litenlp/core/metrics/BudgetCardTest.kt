package dev.litenlp.core.metrics

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class BudgetCardTest {
    @Test
    fun figuresOfTheManifest() {
        val graphs = """{"onnx": $SHIPPED_WORK}"""
        val scores = """{"tatoeba test": {"bleu": 40.5, "bleu_low": 39, "bleu_high": 42.0, "chrf": 61.2}, "flores": {"chrf": 50}}"""
        val card = BudgetCard(manifest(SHIPPED_BUDGET, graphs, scores))
        assertEquals(BudgetCard.Parameters(4_634_624, 1_536_000, 3_098_624), card.parameters)
        assertEquals(BudgetCard.MultAdds(30, 30, 96_015_360, 142_080_000), card.macs)
        assertEquals(BudgetCard.Limit(3_098_624, 10_000_000), card.parameterLimit)
        assertEquals(BudgetCard.Limit(96_015_360, 500_000_000), card.macLimit)
        assertEquals(142_771_200, card.graphMacs("onnx"))
        assertNull(card.graphMacs("executorch"))
        assertEquals(3, card.archiveBytes)
        assertEquals(3, card.graphBytes("onnx"))
        assertEquals(0, card.graphBytes("executorch"))
        assertNull(card.graphBytes("other"))
        assertEquals(
            listOf(
                BudgetCard.Score("flores", null, null, null, 50.0),
                BudgetCard.Score("tatoeba test", 40.5, 39.0, 42.0, 61.2),
            ),
            card.scores,
        )
    }

    @Test
    fun whatIsNotRecordedIsNull() {
        val odd = """{"lengths": {}, "params": {"total": "many"}, "macs": {"paper": 1, "executed": 2}}"""
        for (card in listOf(BudgetCard(manifest()), BudgetCard(manifest(budget = odd)))) {
            assertNull(card.parameters)
            assertNull(card.macs)
            assertNull(card.parameterLimit)
            assertNull(card.macLimit)
            assertNull(card.graphMacs("onnx"))
            assertTrue(card.scores.isEmpty())
        }
    }

    @Test
    fun aLimitHoldsUpToItsValue() {
        assertTrue(BudgetCard.Limit(10, 10).isWithin)
        assertFalse(BudgetCard.Limit(11, 10).isWithin)
        assertEquals(1.1, BudgetCard.Limit(11, 10).fraction, 1e-12)
    }

    @Test
    fun speed() {
        assertEquals(2.0, BudgetCard.gmacsPerSecond(10_000_000, 5.0), 1e-12)
        assertEquals(0.0, BudgetCard.gmacsPerSecond(10_000_000, 0.0))
    }
}
