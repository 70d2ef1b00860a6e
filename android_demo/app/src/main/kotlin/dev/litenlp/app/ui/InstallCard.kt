package dev.litenlp.app.ui

import android.view.View
import android.widget.ProgressBar
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.models.Installing

/** The card of install_card.xml. */
class InstallCard(private val card: View, onCancel: (() -> Unit)?) {
    private val text: TextView = card.findViewById(R.id.install_text)
    private val progress: ProgressBar = card.findViewById(R.id.install_progress)

    init {
        card.findViewById<View>(R.id.install_cancel).apply {
            visibility = if (onCancel == null) View.GONE else View.VISIBLE
            setOnClickListener { onCancel?.invoke() }
        }
    }

    /** Shows how far an installation is; null hides the card. */
    fun show(installing: Installing?) {
        card.visibility = if (installing == null) View.GONE else View.VISIBLE
        if (installing == null) return
        val context = card.context
        val percent = installing.percent
        progress.isIndeterminate = percent == null
        if (percent == null) {
            text.text = context.getString(R.string.installing, installing.name)
        } else {
            progress.progress = percent
            val done = Sentences.percent(context, percent / 100.0)
            text.text = context.getString(R.string.installing_percent, installing.name, done)
        }
    }
}
