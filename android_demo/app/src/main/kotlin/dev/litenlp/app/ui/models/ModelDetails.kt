package dev.litenlp.app.ui.models

import android.content.Context
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.models.Model

/** Contents of a model's manifest as labels and values in the language of the app. */
object ModelDetails {
    /** @param runtimes those of this build that the model has graphs for */
    fun of(context: Context, model: Model, runtimes: List<String>): List<Pair<String, String>> {
        val manifest = model.bundle.manifest
        fun label(id: Int) = context.getString(id)
        fun count(number: Int) = Sentences.count(context, number)
        val parameters = manifest.budget.optJSONObject("params")?.optLong("total", 0)?.takeIf { it > 0 }
        val vocabulary = manifest.vocabulary
        val bounds = manifest.bounds
        val pair = manifest.languages?.let { Sentences.languagePair(context, manifest) } ?: label(R.string.unknown)
        return listOf(
            label(R.string.detail_languages) to pair,
            label(R.string.detail_size) to Sentences.size(context, model.bundle.sizeBytes),
            label(R.string.detail_parameters) to (parameters?.let { Sentences.count(context, it) } ?: label(R.string.unknown)),
            label(R.string.detail_precision) to manifest.precision,
            label(R.string.detail_vocabulary) to
                context.getString(R.string.detail_vocabulary_value, count(vocabulary.srcSize), count(vocabulary.tgtSize)),
            label(R.string.detail_bounds) to
                context.getString(R.string.detail_bounds_value, count(bounds.source), count(bounds.capacity)),
            label(R.string.detail_runtimes) to runtimes.joinToString(", ", transform = Sentences::runtimeName),
            label(R.string.detail_versions) to manifest.versions.map { (name, version) -> "$name $version" }.joinToString(", "),
            label(R.string.detail_schema) to count(manifest.schemaVersion),
            label(R.string.detail_folder) to model.id,
            label(R.string.detail_files) to manifest.plainFiles.map { (name, file) ->
                "$name, ${Sentences.size(context, file.sizeBytes)}"
            }.joinToString("\n"),
        )
    }
}
