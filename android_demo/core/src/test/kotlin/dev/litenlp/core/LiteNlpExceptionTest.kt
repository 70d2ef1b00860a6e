package dev.litenlp.core

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class LiteNlpExceptionTest {
    private fun shown(message: String) = LiteNlpException(Problem.ALTERED, message).message

    @Test
    fun `a message of a screen stays as it is`() {
        val message = "tensor 'ä😀': expected 1, found 2\n".repeat(40)
        assertEquals(message, shown(message))
    }

    @Test
    fun `control characters and long messages do not reach the log`() {
        assertEquals("tensor 'a\\u001b[2J\\u0085': found", shown("tensor 'a\u001b[2J\u0085': found"))
        for (letter in listOf("x", "\u0007")) {
            val cut = shown("tensor '" + letter.repeat(100_000) + "': found 7")
            assertTrue(cut.length < 2000 && cut.startsWith("tensor '") && cut.endsWith("': found 7") && "left out" in cut, cut)
        }
    }
}
