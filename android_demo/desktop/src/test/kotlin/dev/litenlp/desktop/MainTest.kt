package dev.litenlp.desktop

import java.io.StringReader
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.CsvSource

class MainTest {
    @ParameterizedTest
    @CsvSource(delimiter = '|', value = ["''|0", "a|1", "a\\n|1", "a\\n\\n|2", "a\\rb\\u2028c\\r\\nd|2"])
    fun onlyALineFeedEndsALine(text: String, lines: Int) {
        val unescaped = text.replace("\\n", "\n").replace("\\r", "\r").replace("\\u2028", "\u2028")
        assertEquals(unescaped.removeSuffix("\n").split('\n').take(lines), linesOf(StringReader(unescaped)).toList())
    }
}
