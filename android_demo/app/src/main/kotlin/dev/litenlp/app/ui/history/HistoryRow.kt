package dev.litenlp.app.ui.history

import android.view.View
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.ui.IncomingText
import java.text.DateFormat
import java.util.Date

/** A row of history_row.xml. */
class HistoryRow(private val row: View) {
    /** Shows an entry; without [onDelete] it cannot be deleted here. */
    fun show(entry: KeptTranslation, onDelete: (() -> Unit)?) {
        row.findViewById<TextView>(R.id.row_source).text = IncomingText.beginning(entry.source)
        row.findViewById<TextView>(R.id.row_target).text = IncomingText.beginning(entry.target)
        row.findViewById<TextView>(R.id.row_about).text = about(entry)
        row.findViewById<View>(R.id.row_delete).apply {
            visibility = if (onDelete == null) View.GONE else View.VISIBLE
            setOnClickListener { onDelete?.invoke() }
        }
    }

    private fun about(entry: KeptTranslation): String {
        val context = row.context
        val times = DateFormat.getDateTimeInstance(DateFormat.MEDIUM, DateFormat.SHORT, Sentences.locale(context))
        val parts = listOfNotNull(
            times.format(Date(entry.time)),
            entry.languages?.let { (source, target) -> context.getString(R.string.language_pair, source, target) },
        )
        return parts.joinToString(context.getString(R.string.separator))
    }
}
