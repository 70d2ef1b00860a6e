package dev.litenlp.core.container

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Base64
import java.util.zip.GZIPInputStream
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory

/** Against vectors that Python wrote; `golden/README.md` describes them. */
class GoldenContainersTest {
    private val golden = GZIPInputStream(checkNotNull(javaClass.getResourceAsStream("/golden/containers.json.gz")))
        .use { JSONObject(String(it.readBytes(), Charsets.UTF_8)) }
    private val content = decode(golden.getString("container"))

    private fun decode(base64: String): ByteArray = Base64.getDecoder().decode(base64)

    @Test
    fun `every encoding gives the very bits`() {
        val tensors = Container.parse(content).tensors
        val expected = golden.getJSONObject("tensors")
        assertEquals(expected.keySet(), tensors.keys)
        for ((name, tensor) in tensors) {
            val wanted = expected.getJSONObject(name)
            assertEquals(wanted.getJSONArray("shape").toList(), tensor.shape.toList(), name)
            assertEquals(wanted.getString("encoding") == "int64", tensor.isInteger, name)
            assertArrayEquals(decode(wanted.getString("values")), bytesOf(tensor), name)
        }
    }

    @Test
    fun `files, metadata and aliases`() {
        val container = Container.parse(content)
        val files = golden.getJSONObject("files")
        assertEquals(files.keySet(), container.files.keys)
        for ((name, file) in container.files) assertArrayEquals(decode(files.getString(name)), file, name)
        assertTrue(golden.getJSONObject("metadata").similar(container.metadata))
        assertEquals(golden.getJSONObject("aliases").toMap(), container.aliases)
        for ((alias, name) in container.aliases) assertEquals(container.tensors[name], container.tensor(alias))
        assertEquals(null, container.tensor("no such tensor"))
    }

    @Test
    fun `the limits are those of the Python reader`() {
        for (case in golden.getJSONArray("limits")) {
            val (fileBytes, centroids, limits) = (case as JSONArray).let { Triple(it.getLong(0), it.getInt(1), it.getJSONObject(3)) }
            val ours = mapOf(
                "header_bytes" to Limits.MAX_HEADER_BYTES, "header_values" to Limits.MAX_HEADER_VALUES,
                "tensors" to Limits.MAX_TENSORS, "aliases" to Limits.MAX_ALIASES, "files" to Limits.MAX_FILES,
                "dimensions" to Limits.MAX_DIMENSIONS, "weights" to Limits.maxWeights(fileBytes),
                "file_bytes" to Limits.maxFileBytes(fileBytes), "centroids" to Limits.MAX_CENTROIDS,
                "min_scale_bits" to Limits.MIN_SCALE_BITS, "max_scale_bits" to Limits.maxScaleBits(centroids),
                "grid_tables" to Limits.maxGridTables(case.getInt(2)), "symbols_per_lane" to Limits.SYMBOLS_PER_LANE,
                "listed" to Limits.MAX_LISTED, "coded_merges" to Limits.MAX_CODED_MERGES,
                "token_characters" to Limits.MAX_TOKEN_CHARACTERS,
            )
            assertEquals(limits.keySet().associateWith { limits.getLong(it) }, ours.mapValues { it.value.toLong() })
        }
    }

    @TestFactory
    fun damaged(): List<DynamicTest> = golden.getJSONArray("damaged").map { case ->
        case as JSONObject
        val failure = case.getString("failure")
        dynamicTest("$failure: ${case.getString("name")}") {
            val bytes = damagedFile(case)
            val error = if (failure == "payload") {
                val tensor = checkNotNull(Container.parse(bytes).tensor("bad"))
                assertThrows(LiteNlpException::class.java) { bytesOf(tensor) }.also { assertTrue("'bad'" in it.message, it.message) }
            } else {
                assertThrows(LiteNlpException::class.java) { Container.parse(bytes) }
            }
            assertEquals(PROBLEMS.getValue(failure), error.problem, error.message)
        }
    }

    @Test
    fun `a beginning of the file is truncated, whatever its length`() {
        for (length in content.indices step 7) {
            val error = assertThrows(LiteNlpException::class.java) { Container.parse(content.copyOf(length)) }
            assertEquals(Problem.TRUNCATED, error.problem, "$length bytes: ${error.message}")
        }
    }

    @Test
    fun `a flipped bit is noticed`() {
        for (place in content.indices step 5) {
            val altered = content.clone().also { it[place] = (it[place].toInt() xor (1 shl place % 8)).toByte() }
            assertThrows(LiteNlpException::class.java, { Container.parse(altered) }, "byte $place")
        }
    }

    @Test
    fun `integers are not read as floats, nor floats as integers`() {
        val tensors = Container.parse(content).tensors
        assertThrows(IllegalStateException::class.java) { tensors.getValue("counter").decodeFloats() }
        assertThrows(IllegalStateException::class.java) { tensors.getValue("raw").decodeLongs() }
    }

    private fun damagedFile(case: JSONObject): ByteArray {
        if (case.has("content")) return decode(case.getString("content"))
        val bytes = content.clone()
        for (edit in case.getJSONArray("edits")) {
            val (offset, hex) = (edit as JSONArray).toList()
            unhex(hex as String).copyInto(bytes, offset as Int)
        }
        val kept = if (case.isNull("keep")) bytes else bytes.copyOf(case.getInt("keep"))
        return kept + unhex(case.getString("append"))
    }

    private fun unhex(hex: String): ByteArray =
        hex.chunked(2).fold(ByteArrayOutputStream()) { out, pair -> out.apply { write(pair.toInt(16)) } }.toByteArray()

    private fun bytesOf(tensor: Tensor): ByteArray {
        if (tensor.isInteger) {
            val values = tensor.decodeLongs()
            return ByteBuffer.allocate(8 * values.size).order(ByteOrder.LITTLE_ENDIAN).apply { asLongBuffer().put(values) }.array()
        }
        val values = tensor.decodeFloats()
        val bits = IntArray(values.size) { values[it].toRawBits() }
        return ByteBuffer.allocate(4 * bits.size).order(ByteOrder.LITTLE_ENDIAN).apply { asIntBuffer().put(bits) }.array()
    }

    private companion object {
        val PROBLEMS = mapOf(
            "not a container" to Problem.NOT_A_BUNDLE, "newer" to Problem.NEWER_SCHEMA, "truncated" to Problem.TRUNCATED,
            "older" to Problem.UNSUPPORTED, "altered" to Problem.ALTERED, "malformed" to Problem.ALTERED, "too large" to Problem.TOO_LARGE,
            "payload" to Problem.ALTERED,
        )
    }
}
