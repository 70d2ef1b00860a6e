package dev.litenlp.core

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue

/** Checks that [action] fails with [problem] and a message that contains each of [parts]. */
internal fun assertProblem(problem: Problem, vararg parts: String, action: () -> Unit) {
    val error = assertThrows(LiteNlpException::class.java) { action() }
    assertEquals(problem, error.problem, error.message)
    for (part in parts) assertTrue(part in error.message, "expected '$part' in: ${error.message}")
}
