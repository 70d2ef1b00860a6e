package dev.litenlp.core.metrics

import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.RuntimeKind
import org.json.JSONObject

/**
 * Cost of a bundle against the mobile setting of Lite Transformer (Wu et al. 2020, section 5.1), and its scores.
 *
 * Figures that the manifest does not record are null.
 */
class BudgetCard(private val manifest: Manifest) {
    /**
     * Parameters of the model.
     *
     * @property total Everything that is stored.
     * @property embeddings Of these the input tables.
     * @property paper As the paper of the model counts them.
     */
    data class Parameters(val total: Long, val embeddings: Long, val paper: Long)

    /**
     * Mult-Adds of one translation.
     *
     * @property source Source tokens, end mark included, for which they are counted.
     * @property target Decoder steps for which they are counted.
     * @property paper As the published tables count them.
     * @property executed What a device has to compute at least.
     */
    data class MultAdds(val source: Int, val target: Int, val paper: Long, val executed: Long)

    /**
     * Quality on one test set.
     *
     * @property bleu 0 to 100, with the ends of its confidence interval.
     * @property chrf 0 to 100.
     */
    data class Score(val testSet: String, val bleu: Double?, val bleuLow: Double?, val bleuHigh: Double?, val chrf: Double?)

    /** A figure and the largest one allowed. */
    data class Limit(val found: Long, val limit: Long) {
        val isWithin: Boolean get() = found <= limit

        /** Part of the limit that is used up; above 1 if it is exceeded. */
        val fraction: Double get() = found.toDouble() / limit
    }

    val parameters: Parameters? = manifest.budget.optJSONObject("params")?.let { params ->
        Parameters(
            total = integer(params, "total") ?: return@let null,
            embeddings = integer(params, "embeddings") ?: return@let null,
            paper = integer(params, "paper") ?: return@let null,
        )
    }

    val macs: MultAdds? = manifest.budget.optJSONObject("macs")?.let { macs ->
        val lengths = manifest.budget.optJSONObject("lengths") ?: return@let null
        MultAdds(
            source = integer(lengths, "src")?.toInt() ?: return@let null,
            target = integer(lengths, "tgt")?.toInt() ?: return@let null,
            paper = integer(macs, "paper") ?: return@let null,
            executed = integer(macs, "executed") ?: return@let null,
        )
    }

    /** The limit on parameters holds for those that the paper counts. */
    val parameterLimit: Limit? = parameters?.let { Limit(it.paper, MAX_PARAMETERS) }

    /** The limit on Mult-Adds holds for those that the paper counts. */
    val macLimit: Limit? = macs?.let { Limit(it.paper, MAX_MACS) }

    /** Bytes of the bundle as a file: what has to be carried to the device, but for the archive's own table. */
    val archiveBytes: Long = manifest.files.values.sumOf { it.sizeBytes }

    /** Test sets in the order of their names. */
    val scores: List<Score> = manifest.scores.keys().asSequence().toList().sorted().mapNotNull { testSet ->
        manifest.scores.optJSONObject(testSet)?.let { score ->
            Score(testSet, number(score, "bleu"), number(score, "bleu_low"), number(score, "bleu_high"), number(score, "chrf"))
        }
    }

    /** Bytes of the files that [runtime] loads; null if the bundle has none for it. */
    fun graphBytes(runtime: String): Long? =
        RuntimeKind.of(runtime)?.files(manifest)?.sumOf { manifest.plainFiles.getValue(it).sizeBytes }

    /** Mult-Adds that the graphs for [runtime] execute at the lengths of [macs]: more than it by the slots that are empty. */
    fun graphMacs(runtime: String): Long? {
        val lengths = macs ?: return null
        return GraphWork.of(manifest, runtime)?.macs(lengths.source, lengths.target, lengths.target)
    }

    companion object {
        /** Most parameters, the embedding tables not counted. */
        const val MAX_PARAMETERS = 10_000_000L

        /** Most Mult-Adds for 30 to 30 tokens, output projection not counted. */
        const val MAX_MACS = 500_000_000L

        /** Speed in 10^9 Mult-Adds per second; 0 if no time passed. */
        fun gmacsPerSecond(macs: Long, milliseconds: Double): Double = if (milliseconds > 0) macs / milliseconds / 1e6 else 0.0

        private fun integer(json: JSONObject, key: String): Long? = when (val value = json.opt(key)) {
            is Int -> value.toLong()
            is Long -> value
            else -> null
        }

        private fun number(json: JSONObject, key: String): Double? = (json.opt(key) as? Number)?.toDouble()
    }
}
