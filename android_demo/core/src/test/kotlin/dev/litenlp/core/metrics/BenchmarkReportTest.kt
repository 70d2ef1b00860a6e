package dev.litenlp.core.metrics

import java.io.File
import java.security.MessageDigest
import java.time.Instant
import java.util.Locale
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** The report's keys and values, as `docs/bench-schema.md` names them. */
class BenchmarkReportTest {
    @TempDir
    lateinit var directory: File

    private val device = BenchmarkDevice("phone", "Test", "Android 15", "arm64-v8a", "Cortex", 8, listOf("asimddp"), 1L shl 33)
    private val plan = BenchmarkPlan(listOf(intArrayOf(3, 4), intArrayOf(5)), listOf(1))
    private val row = BenchmarkRow(
        runtime = "onnx",
        version = "1.24.3",
        threads = 1,
        precision = "int8",
        loadColdMs = 1234567.25049,
        loadWarmMs = 2.5,
        firstTokenMs = Summary(1.0, 2.0, 3.0, 4.0, 5.0),
        sentenceMs = Summary(6.0, 7.0, 8.0, 9.0, 10.5),
        tokensPerSecond = 11.5,
        macs = 5_000_000_000,
        gmacsPerSecond = 1.5,
        memory = MemoryBytes(1, 2, 3),
        thermal = ThermalStates("none", "light"),
        tokensSha256 = SHA256,
        targetTokens = 9,
    )

    private fun report(vararg rows: BenchmarkRow): JSONObject {
        val model = BenchmarkModel.of(installedBundle(directory))
        val created = Instant.parse("2026-11-21T06:00:00.987Z")
        return JSONObject(BenchmarkReport("0.1.0", created, device, model, plan, rows.toList()).toJson().toString(2))
    }

    @Test
    fun everyKeyHasItsTypeAndValue() {
        val expected = JSONObject(
            """{"schema_version": 1, "tool": "lite-nlp android", "tool_version": "0.1.0", "created": "2026-11-21T06:00:00Z",
            "device": {"kind": "phone", "name": "Test", "os": "Android 15", "abi": "arm64-v8a", "cpu": "Cortex", "cores": 8,
              "cpu_features": ["asimddp"], "memory_bytes": 8589934592},
            "model": {"name": "tiny", "size_bytes": 3, "params": 4634624, "macs": 142080000,
              "manifest_sha256": "${sha256OfManifest()}"},
            "settings": {"beam": 1, "sentences": 2, "src_tokens": 3, "tgt_tokens": 9, "warmup": 1, "repeats": 3},
            "rows": [{"runtime": "onnx", "version": "1.24.3", "threads": 1, "precision": "int8", "load_cold_ms": 1234567.25,
              "load_warm_ms": 2.5,
              "first_token_ms": {"p50": 1, "p90": 2, "mean": 3, "min": 4, "max": 5},
              "sentence_ms": {"p50": 6, "p90": 7, "mean": 8, "min": 9, "max": 10.5},
              "tokens_per_s": 11.5, "macs": 5000000000, "gmacs_per_s": 1.5,
              "memory_bytes": {"before": 1, "loaded": 2, "peak": 3}, "thermal": {"before": "none", "after": "light"},
              "tokens_sha256": "$SHA256"}]}""",
        )
        assertSimilar(expected, report(row), "report")
    }

    @Test
    fun theReportFollowsTheSchemaThatTheCommandLineShares() {
        val schema = JsonSchema(JSONObject(schemaFile().readText()))
        assertEquals(emptyList<String>(), schema.faults(report(row, row.copy(runtime = "executorch", thermal = null))))
        // And the schema is held against it: what is wrong is found.
        val wrong = report(row.copy(tokensSha256 = "AB", tokensPerSecond = -1.0)).put("created", "today")
        wrong.getJSONObject("device").remove("abi")
        assertEquals(
            listOf("report.created", "report.device", "report.rows[0].tokens_per_s", "report.rows[0].tokens_sha256"),
            schema.faults(wrong).map { it.substringBefore(':') }.sorted(),
        )
    }

    /** The tests may run from the repository or from a folder of it. */
    private fun schemaFile(): File {
        val folders = generateSequence(File("").absoluteFile) { it.parentFile }
        return folders.map { File(it, "lite_nlp/assets/bench.schema.json") }.first { it.exists() }
    }

    @Test
    fun whatIsNotKnownIsNull() {
        assertTrue(report(row.copy(thermal = null)).getJSONArray("rows").getJSONObject(0).isNull("thermal"))
    }

    @Test
    fun thereIsNoReportOfNothing() {
        val error = assertThrows(IllegalArgumentException::class.java) { report() }
        assertEquals("report: expected at least one row, found none", error.message)
    }

    @Test
    fun theLanguageOfTheDeviceChangesNothing() {
        val expected = report(row).toString()
        val before = Locale.getDefault()
        try {
            // Arabic digits, and a dotless i in lower case.
            for (locale in listOf(Locale.forLanguageTag("ar-EG-u-nu-arab"), Locale.forLanguageTag("tr"))) {
                Locale.setDefault(locale)
                assertEquals(expected, report(row).toString())
                assertTrue(tokensSha256(listOf(intArrayOf(1))).all { it in '0'..'9' || it in 'a'..'f' })
            }
        } finally {
            Locale.setDefault(before)
        }
    }

    private fun sha256OfManifest(): String {
        installedBundle(directory)
        val digest = MessageDigest.getInstance("SHA-256").digest(File(directory, "manifest.json").readBytes())
        return digest.joinToString("") { "%02x".format(Locale.ROOT, it) }
    }

    private fun assertSimilar(expected: Any, found: Any, path: String) {
        when (expected) {
            is JSONObject -> {
                assertEquals(expected.keySet(), (found as JSONObject).keySet(), path)
                expected.keySet().forEach { assertSimilar(expected.get(it), found.get(it), "$path.$it") }
            }
            is JSONArray -> {
                assertEquals(expected.length(), (found as JSONArray).length(), path)
                for (index in 0 until expected.length()) assertSimilar(expected.get(index), found.get(index), "$path[$index]")
            }
            is Number -> assertEquals(expected.toDouble(), (found as Number).toDouble(), path)
            else -> assertEquals(expected, found, path)
        }
    }

    private companion object {
        val SHA256 = "ab".repeat(32)
    }
}
