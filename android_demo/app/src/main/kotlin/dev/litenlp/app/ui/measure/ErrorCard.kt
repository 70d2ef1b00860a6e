package dev.litenlp.app.ui.measure

import android.view.View
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.ui.Clipboard

/** The card of measure_error.xml. */
class ErrorCard(private val card: View) {
    private val title: TextView = card.findViewById(R.id.measure_error_title)
    private val text: TextView = card.findViewById(R.id.measure_error_text)

    init {
        card.findViewById<View>(R.id.measure_error_log).setOnClickListener { Clipboard.copyLog(card.context) }
    }

    /**
     * Shows why a job failed; any other ending hides the card.
     *
     * @param runtimesTitle string for the case that no runtime could do it
     */
    fun show(ending: Ending<*>?, runtimesTitle: Int) {
        card.showIf(ending is Ending.Failed || ending is Ending.NoModel)
        when (ending) {
            is Ending.Failed -> {
                title.setText(if (ending.failures.isEmpty()) R.string.error_title else runtimesTitle)
                text.text = if (ending.failures.isEmpty()) Sentences.about(card.context, ending.problem) else reasons(ending)
            }
            is Ending.NoModel -> {
                title.setText(R.string.no_model_title)
                val sentence = ending.problem?.let { Sentences.about(card.context, it) }
                text.text = sentence ?: card.context.getString(R.string.no_model_text)
            }
            else -> Unit
        }
    }

    private fun reasons(ending: Ending.Failed): String = ending.failures.joinToString("\n") {
        card.context.getString(
            R.string.no_runtime_reason,
            Sentences.runtimeName(it.runtime),
            Sentences.about(card.context, it.problem),
        )
    }
}
