package dev.litenlp.app.ui.measure

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.R

/** The table of figure_table.xml: a label per row, a column per thing that is measured. */
class FigureTable(view: View) {
    private val rows: ViewGroup = view.findViewById(R.id.table_rows)
    private val context = view.context
    private val inflater = LayoutInflater.from(context)

    /**
     * @property label of the row
     * @property values one per column, null for what is not known
     */
    class Row(val label: String, val values: List<String?>)

    /**
     * Fills the table.
     *
     * @param corner above the labels
     * @param columns their headings
     * @param spoken their names within a sentence, for TalkBack, which reads a row as a whole
     */
    fun show(corner: String, columns: List<String>, content: List<Row>, spoken: List<String> = columns) {
        rows.removeAllViews()
        add(corner, columns, isHeading = true).contentDescription = (listOf(corner) + spoken).joinToString(" ").trim()
        for (row in content) {
            val values = row.values.map { it ?: context.getString(R.string.figure_missing) }
            val said = values.indices.map { context.getString(R.string.figure_in_column, spoken[it], values[it]) }
            add(row.label, values, isHeading = false).contentDescription =
                (listOf(row.label) + said).joinToString(context.getString(R.string.separator))
        }
    }

    private fun add(label: String, values: List<String>, isHeading: Boolean): View {
        val row = inflater.inflate(R.layout.figure_row, rows, false) as ViewGroup
        (row.getChildAt(0) as TextView).text = label
        for (value in values) {
            val cell = inflater.inflate(R.layout.figure_cell, row, false) as TextView
            cell.text = value
            if (isHeading) cell.setTextColor(context.getColor(R.color.on_surface_secondary))
            row.addView(cell)
        }
        rows.addView(row)
        return row
    }
}
