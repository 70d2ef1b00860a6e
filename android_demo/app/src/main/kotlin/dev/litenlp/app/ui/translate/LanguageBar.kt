package dev.litenlp.app.ui.translate

import android.app.AlertDialog
import android.view.View
import android.widget.ImageButton
import android.widget.TextView
import android.widget.Toast
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.models.Model
import dev.litenlp.app.models.ModelStore

/**
 * The languages of the model in use (language_bar.xml): a tap on one offers the installed models, the button between them
 * takes the model of the other direction.
 *
 * @param onChosen told a model that a person chose
 * @param onMore a person wants other models than those that are installed
 * @param onSwap told the model of the other direction
 */
class LanguageBar(
    private val bar: View,
    private val models: ModelStore,
    private val onChosen: (Model) -> Unit,
    private val onMore: () -> Unit,
    private val onSwap: (Model) -> Unit,
) {
    private val context = bar.context
    private val source: TextView = bar.findViewById(R.id.source_language)
    private val target: TextView = bar.findViewById(R.id.target_language)
    private val swap: ImageButton = bar.findViewById(R.id.swap)
    private var dialog: AlertDialog? = null

    /** Whether the choice is open, or was when [hide] took it off. */
    var isChoosing = false

    init {
        source.setOnClickListener { choose() }
        target.setOnClickListener { choose() }
        swap.setOnClickListener { swap() }
    }

    /** Draws the languages of the selected model. */
    fun draw() {
        val languages = models.selected?.languages
        draw(source, languages?.first, R.string.source_text, R.string.source_language)
        draw(target, languages?.second, R.string.translation, R.string.target_language)
        val why = obstacle()
        swap.contentDescription = why?.let { "${context.getString(R.string.swap)}. $it" } ?: context.getString(R.string.swap)
        swap.tooltipText = context.getString(R.string.swap)
        // Not disabled: a tap says what is missing.
        swap.alpha = if (why == null) 1f else FAINT
        bar.findViewById<View>(R.id.language_bar).visibility = if (models.models.isEmpty()) View.GONE else View.VISIBLE
    }

    private fun draw(label: TextView, language: String?, unknown: Int, description: Int) {
        val name = language?.let { Sentences.languageName(context, it) } ?: context.getString(unknown)
        if (label.text.toString() != name) label.text = name
        label.contentDescription = context.getString(description, name)
    }

    /** Why the languages cannot be swapped, null if they can. */
    private fun obstacle(): String? {
        if (models.reverse != null) return null
        val (source, target) = models.selected?.languages ?: return context.getString(R.string.swap_unknown)
        val names = listOf(target, source).map { Sentences.languageName(context, it) }
        return context.getString(R.string.swap_missing, names[0], names[1])
    }

    private fun swap() {
        val reverse = models.reverse
        if (reverse != null) return onSwap(reverse)
        Toast.makeText(context, obstacle(), Toast.LENGTH_LONG).show()
    }

    /** Offers the installed models. */
    fun choose() {
        dialog?.dismiss()
        isChoosing = true
        val offered = models.models
        val names = offered.map { model ->
            val pair = Sentences.languagePair(context, model.bundle.manifest)
            val size = Sentences.size(context, model.bundle.sizeBytes)
            val about = listOf(model.name, size).joinToString(context.getString(R.string.separator))
            "$pair\n$about"
        }
        val chosen = offered.indexOfFirst { it.id == models.selected?.id }
        dialog = AlertDialog.Builder(context)
            .setTitle(R.string.choose_languages)
            .setSingleChoiceItems(names.toTypedArray(), chosen) { shown, index ->
                isChoosing = false
                shown.dismiss()
                if (index != chosen) onChosen(offered[index])
            }
            .setNeutralButton(R.string.more_models) { _, _ ->
                isChoosing = false
                onMore()
            }
            .setNegativeButton(R.string.cancel) { _, _ -> isChoosing = false }
            .setOnCancelListener { isChoosing = false }
            .show()
    }

    /** Takes the choice off the screen, which goes; [isChoosing] stays. */
    fun hide() {
        dialog?.dismiss()
        dialog = null
    }

    private companion object {
        const val FAINT = 0.38f
    }
}
