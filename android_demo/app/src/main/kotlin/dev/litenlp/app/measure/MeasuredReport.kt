package dev.litenlp.app.measure

import org.json.JSONArray
import org.json.JSONObject

/**
 * A benchmark's report (docs/bench-schema.md), as far as screens show it.
 *
 * @property json all of it
 * @throws org.json.JSONException if it is no report
 */
class MeasuredReport(val json: JSONObject) {
    private val settings = json.getJSONObject("settings")
    private val device = json.getJSONObject("device")

    private val model = json.getJSONObject("model")

    val modelName: String = model.getString("name")

    /** Tells bundles apart, also of one name. */
    val manifestSha256: String = model.getString("manifest_sha256")
    val created: String = json.getString("created")
    val sentences: Int = settings.getInt("sentences")
    val sourceTokens: Int = settings.getInt("src_tokens")
    val targetTokens: Int = settings.getInt("tgt_tokens")
    val repeats: Int = settings.getInt("repeats")
    val deviceName: String = device.getString("name")
    val os: String = device.getString("os")
    val abi: String = device.getString("abi")
    val cpu: String = device.getString("cpu")
    val cores: Int = device.getInt("cores")
    val cpuFeatures: List<String> = device.getJSONArray("cpu_features").let { list -> List(list.length(), list::getString) }
    val memoryBytes: Long = device.getLong("memory_bytes")
    val rows: List<MeasuredRow> = json.getJSONArray("rows").objects().map(::MeasuredRow)

    /** Whether all rows produced the same tokens. */
    val hasSameTokens: Boolean get() = rows.distinctBy { it.tokensSha256 }.size <= 1

    private fun JSONArray.objects(): List<JSONObject> = List(length(), ::getJSONObject)
}

/**
 * One runtime with one count of threads. Times are in milliseconds.
 *
 * @property loadedBytes resident memory once the engine was open, beyond what there was before; null if the system does not tell
 * @property peakBytes the most beyond that
 * @property thermal the state after the row, null where the system does not tell
 */
class MeasuredRow(row: JSONObject) {
    val runtime: String = row.getString("runtime")
    val version: String = row.getString("version")
    val threads: Int = row.getInt("threads")
    val precision: String = row.getString("precision")
    val loadColdMs: Double = row.getDouble("load_cold_ms")
    val loadWarmMs: Double = row.getDouble("load_warm_ms")
    val firstTokenP50: Double = row.getJSONObject("first_token_ms").getDouble("p50")
    val firstTokenP90: Double = row.getJSONObject("first_token_ms").getDouble("p90")
    val sentenceP50: Double = row.getJSONObject("sentence_ms").getDouble("p50")
    val sentenceP90: Double = row.getJSONObject("sentence_ms").getDouble("p90")
    val tokensPerSecond: Double = row.getDouble("tokens_per_s")
    val gmacsPerSecond: Double = row.getDouble("gmacs_per_s")
    private val before: Long = row.getJSONObject("memory_bytes").getLong("before")
    val loadedBytes: Long? = beyond(row.getJSONObject("memory_bytes").getLong("loaded"))
    val peakBytes: Long? = beyond(row.getJSONObject("memory_bytes").getLong("peak"))
    val thermal: String? = row.optJSONObject("thermal")?.getString("after")
    val tokensSha256: String = row.getString("tokens_sha256")

    private fun beyond(bytes: Long): Long? = if (before > 0) bytes - before else null
}
