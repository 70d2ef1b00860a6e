package dev.litenlp.core

import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.ValueSource

class JsonTest {
    private fun parse(text: String): JSONObject = Json.parseObject(text.toByteArray())

    @Test
    fun `values keep their types`() {
        val read = parse(
            """ {"int": -12, "long": 4294967296, "longest": -9223372036854775808, "fraction": 1.0, "exponent": 25e-1,
                "yes": true, "no": false, "nothing": null, "list": [1, [], {}], "empty": ""} """,
        )
        assertEquals(-12, read.get("int"))
        assertEquals(4294967296L, read.get("long"))
        assertEquals(Long.MIN_VALUE, read.get("longest"))
        assertEquals(1.0, read.get("fraction"))
        assertEquals(2.5, read.get("exponent"))
        assertEquals(true, read.get("yes"))
        assertEquals(false, read.get("no"))
        assertTrue(read.isNull("nothing") && read.has("nothing"))
        assertEquals("[1,[],{}]", read.getJSONArray("list").toString())
        assertEquals("", read.get("empty"))
    }

    @Test
    fun `escapes and characters of every plane`() {
        val read = parse("""{"escaped": "\"\\\/\b\f\n\r\t\u00e4\uD83d\ude00", "plain": "ä😀"}""")
        assertEquals("\"\\/\b\u000c\n\r\tä😀", read.get("escaped"))
        assertEquals("ä😀", read.get("plain"))
    }

    @ParameterizedTest
    @ValueSource(
        strings = [
            "", " ", "[]", "1", "null", "{", "{} {}", "{}x", "{'a': 1}", "{a: 1}", "{\"a\" 1}", "{\"a\": 1,}", "{\"a\": [1,]}",
            "{\"a\": [1 2]}", "{\"a\": 01}", "{\"a\": +1}", "{\"a\": .5}", "{\"a\": 1.}", "{\"a\": 1e}", "{\"a\": -}", "{\"a\": 1e999}",
            "{\"a\": NaN}", "{\"a\": Infinity}", "{\"a\": tru}", "{\"a\": /* */ 1}", "{\"a\": # \n 1}", "{\"a\"; 1}", "{\"a\" = 1}",
            "{\"a\": \"\n\"}", "{\"a\": \"\\x\"}", "{\"a\": \"\\u12g4\"}", "{\"a\": \"\\u12", "{\"a\": \"", "{\"a\": \"\\", "\u0000", "{\u0000}",
            "{\"a\": 1, \"a\": 1}", "{\"a\": {\"b\": 1, \"\\u0062\": 2}}", "{\"a\": \"\\ud83d\"}", "{\"\\ude00\": 1}",
            "{\"a\": \"\\ude00\\ud83d\"}", "{\"a\": \"\\ud83dx\\ude00\"}",
        ],
    )
    fun `what is no JSON object is refused`(text: String) {
        assertThrows(JsonSyntaxException::class.java) { parse(text) }
    }

    @Test
    fun `broken UTF-8 is refused`() {
        val content = "{\"a\": \"x\"}".toByteArray().also { it[7] = 0xC3.toByte() }
        assertThrows(JsonSyntaxException::class.java) { Json.parseObject(content) }
    }

    @Test
    fun `neither depth nor digits exhaust anything`() {
        val deep = assertThrows(JsonSyntaxException::class.java) { parse("{\"a\": " + "[".repeat(90_000)) }
        assertTrue("256 levels" in deep.message.orEmpty(), deep.message)
        for (inner in listOf("", "1", "\"x\"")) {
            assertEquals(1, parse("{\"a\": " + "[".repeat(255) + inner + "]".repeat(255) + "}").length())
            assertThrows(JsonSyntaxException::class.java) { parse("{\"a\": " + "[".repeat(256) + inner + "]".repeat(256) + "}") }
        }
        for (beyond in listOf("9223372036854775808", "-9223372036854775809", "9".repeat(1_000_000))) {
            val long = assertThrows(JsonSyntaxException::class.java) { parse("{\"a\": $beyond}") }
            assertTrue("an integer of 64 bits" in long.message.orEmpty(), long.message)
        }
    }

    @Test
    fun `size and number of values are counted before anything is made of them`() {
        val content = "{\"a\": [\"[,{\", {}, \"\\\"[\"]}"
        assertEquals(1, Json.parseObject(content.toByteArray(), maxBytes = content.length, maxValues = 6).length())
        for ((bytes, values, what) in listOf(Triple(content.length - 1, 6, "bytes"), Triple(content.length, 5, "values"))) {
            val error = assertThrows(JsonSyntaxException::class.java) { Json.parseObject(content.toByteArray(), bytes, values) }
            assertTrue(what in error.message.orEmpty(), error.message)
        }
    }
}
