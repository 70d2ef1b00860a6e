package dev.litenlp.nativetests

import dev.litenlp.core.Problem
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.condition.EnabledIfSystemProperty

/**
 * A system that lacks a runtime: the other one works. Run in processes of their own, whose `litenlp.libraries` has less than the
 * APK, with `litenlp.missing` naming the runtimes.
 */
@EnabledIfSystemProperty(named = "litenlp.missing", matches = ".+")
class MissingRuntimesTest {
    private val missing = property("litenlp.missing").split(",")

    @Test
    fun `a runtime that is missing says so, every time, and the other one translates`() {
        HostLoader.openPresent()
        for (factory in factories) {
            if (factory.runtime in missing) {
                repeat(2) { assertMissing(factory) }
            } else {
                factory.open(TestBundle.installed, 1).use { engine ->
                    assertTrue(search(engine, listOf(Golden.all[0].pieces[0]), SearchOptions())[0].tokens.isNotEmpty())
                }
            }
        }
    }

    private fun assertMissing(factory: EngineFactory) {
        val error = assertProblem(Problem.RUNTIME_MISSING) { factory.open(TestBundle.installed, 1) }
        assertTrue("expected the library of" in error.message, error.message)
    }
}
