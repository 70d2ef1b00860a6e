package dev.litenlp.core.metrics

import dev.litenlp.core.bundle.InstalledBundle
import java.time.Instant
import java.time.temporal.ChronoUnit
import org.json.JSONArray
import org.json.JSONObject

/**
 * Device of a benchmark.
 *
 * @property kind `phone`, `board` or `host`.
 * @property name Of the device, as its maker calls it.
 * @property os With its version.
 * @property abi Such as `arm64-v8a`.
 * @property cpu As the system names it; empty if it does not.
 * @property cores Processors that the process may use.
 * @property cpuFeatures What the processor reports, such as `asimddp`.
 * @property memoryBytes Of the whole device.
 */
data class BenchmarkDevice(
    val kind: String,
    val name: String,
    val os: String,
    val abi: String,
    val cpu: String,
    val cores: Int,
    val cpuFeatures: List<String>,
    val memoryBytes: Long,
)

/** Resident memory in bytes: before the runtime's first engine was opened, once that of the row was, and the most while it ran. */
data class MemoryBytes(val before: Long, val loaded: Long, val peak: Long)

/** The thermal state before a row was measured and after. */
data class ThermalStates(val before: String, val after: String)

/**
 * One runtime with one thread count.
 *
 * @property precision Of the weights: `fp32`, `int8` or `mixed`.
 * @property loadColdMs The first opening of an engine of this runtime in this process; in all rows of a runtime the same.
 * @property loadWarmMs Opening another one after that was closed.
 * @property firstTokenMs From the token ids of a sentence to the end of the first decoder step.
 * @property sentenceMs From the token ids of a sentence to those of its translation.
 * @property tokensPerSecond Produced ones, end marks not counted.
 * @property macs Executed by all sentences of one repeat.
 * @property gmacsPerSecond Effective: 10^9 Mult-Adds per second of translating.
 * @property thermal Null where it is not known.
 * @property tokensSha256 As [dev.litenlp.core.metrics.tokensSha256] makes it.
 * @property targetTokens Produced in one repeat, end marks not counted.
 */
data class BenchmarkRow(
    val runtime: String,
    val version: String,
    val threads: Int,
    val precision: String,
    val loadColdMs: Double,
    val loadWarmMs: Double,
    val firstTokenMs: Summary,
    val sentenceMs: Summary,
    val tokensPerSecond: Double,
    val macs: Long,
    val gmacsPerSecond: Double,
    val memory: MemoryBytes,
    val thermal: ThermalStates?,
    val tokensSha256: String,
    val targetTokens: Int,
)

/**
 * Model of a benchmark.
 *
 * @property manifestSha256 Of the bundle's manifest, in lower-case hexadecimal: equal for the same model and files.
 * @property sizeBytes Of the bundle.
 * @property params Everything that is stored; 0 if the manifest does not record it.
 * @property macs Executed at the lengths that the manifest records; 0 if it does not.
 */
data class BenchmarkModel(
    val name: String,
    val manifestSha256: String,
    val sizeBytes: Long,
    val params: Long,
    val macs: Long,
) {
    companion object {
        /** Describes an installed bundle. */
        fun of(bundle: InstalledBundle): BenchmarkModel {
            val card = BudgetCard(bundle.manifest)
            return BenchmarkModel(
                name = bundle.manifest.name,
                manifestSha256 = bundle.manifestSha256,
                sizeBytes = card.archiveBytes,
                params = card.parameters?.total ?: 0,
                macs = card.macs?.executed ?: 0,
            )
        }
    }
}

/**
 * A benchmark as `docs/bench-schema.md` describes it.
 *
 * @param rows At least one.
 */
class BenchmarkReport(
    private val toolVersion: String,
    private val created: Instant,
    private val device: BenchmarkDevice,
    private val model: BenchmarkModel,
    private val plan: BenchmarkPlan,
    private val rows: List<BenchmarkRow>,
    private val tool: String = "lite-nlp android",
) {
    init {
        require(rows.isNotEmpty()) { "report: expected at least one row, found none" }
    }

    /** The report as JSON; nothing in it depends on the language that the device is set to. */
    fun toJson(): JSONObject = JSONObject()
        .put("schema_version", SCHEMA_VERSION)
        .put("tool", tool)
        .put("tool_version", toolVersion)
        .put("created", created.truncatedTo(ChronoUnit.SECONDS).toString())
        .put("device", deviceJson())
        .put("model", modelJson())
        .put("settings", settingsJson())
        .put("rows", JSONArray().also { list -> rows.forEach { list.put(rowJson(it)) } })

    private fun deviceJson() = JSONObject()
        .put("kind", device.kind)
        .put("name", device.name)
        .put("os", device.os)
        .put("abi", device.abi)
        .put("cpu", device.cpu)
        .put("cores", device.cores)
        .put("cpu_features", JSONArray().also { list -> device.cpuFeatures.forEach { list.put(it) } })
        .put("memory_bytes", device.memoryBytes)

    private fun modelJson() = JSONObject()
        .put("name", model.name)
        .put("manifest_sha256", model.manifestSha256)
        .put("size_bytes", model.sizeBytes)
        .put("params", model.params)
        .put("macs", model.macs)

    private fun settingsJson() = JSONObject()
        .put("beam", plan.options.beamSize)
        .put("sentences", plan.sources.size)
        .put("src_tokens", plan.sources.sumOf { it.size })
        .put("tgt_tokens", rows[0].targetTokens)
        .put("warmup", plan.warmup)
        .put("repeats", plan.repeats)

    private fun rowJson(row: BenchmarkRow) = JSONObject()
        .put("runtime", row.runtime)
        .put("version", row.version)
        .put("threads", row.threads)
        .put("precision", row.precision)
        .put("load_cold_ms", rounded(row.loadColdMs))
        .put("load_warm_ms", rounded(row.loadWarmMs))
        .put("first_token_ms", summaryJson(row.firstTokenMs))
        .put("sentence_ms", summaryJson(row.sentenceMs))
        .put("tokens_per_s", rounded(row.tokensPerSecond))
        .put("macs", row.macs)
        .put("gmacs_per_s", rounded(row.gmacsPerSecond))
        .put("memory_bytes", memoryJson(row.memory))
        .put("thermal", row.thermal?.let { JSONObject().put("before", it.before).put("after", it.after) } ?: JSONObject.NULL)
        .put("tokens_sha256", row.tokensSha256)

    private fun memoryJson(memory: MemoryBytes) =
        JSONObject().put("before", memory.before).put("loaded", memory.loaded).put("peak", memory.peak)

    private fun summaryJson(summary: Summary) = JSONObject()
        .put("p50", rounded(summary.p50))
        .put("p90", rounded(summary.p90))
        .put("mean", rounded(summary.mean))
        .put("min", rounded(summary.min))
        .put("max", rounded(summary.max))

    /** To three decimals: the digits after them are noise. */
    private fun rounded(value: Double): Double = Math.round(value * 1000) / 1000.0

    companion object {
        /** Of the report's layout. */
        const val SCHEMA_VERSION = 1
    }
}
