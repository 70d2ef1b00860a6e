package dev.litenlp.app.ui.measure

import android.content.Context
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences

/** Numbers as the measuring screens write them, in the language of a [Context]. */
object Figures {
    /** A count in millions with three digits that matter: "3.10 M", "96.0 M", "142 M"; whole millions as they are: "10 M". */
    fun millions(context: Context, number: Long): String {
        val isWhole = number % 1_000_000 == 0L
        val figure = if (isWhole) Sentences.count(context, number / 1_000_000) else digits(context, number / 1e6)
        return context.getString(R.string.millions, figure)
    }

    /** A speed in 10^9 Mult-Adds per second. */
    fun gmacs(context: Context, speed: Double): String = context.getString(R.string.gmacs, digits(context, speed))

    /** A positive number with three digits that matter. */
    fun digits(context: Context, number: Double): String = when {
        number < 10 -> Sentences.decimal(context, number, 2)
        number < 100 -> Sentences.decimal(context, number, 1)
        else -> Sentences.decimal(context, number, 0)
    }

    /** "2 threads". */
    fun threads(context: Context, threads: Int): String =
        context.resources.getQuantityString(R.plurals.threads, threads, Sentences.count(context, threads))
}

private const val LARGEST_BESIDE_SCALE = 1.3f

/** Adds a line with a label and a value, beside each other (value_line.xml) where the size of the font leaves place for that. */
internal fun ViewGroup.addLine(label: String, value: String) {
    if (resources.configuration.fontScale > LARGEST_BESIDE_SCALE) return addDetail(label, value)
    val line = LayoutInflater.from(context).inflate(R.layout.value_line, this, false)
    line.findViewById<TextView>(R.id.line_label).text = label
    line.findViewById<TextView>(R.id.line_value).text = value
    addView(line)
}

internal fun View.showIf(isShown: Boolean) {
    visibility = if (isShown) View.VISIBLE else View.GONE
}

/** Adds a label with a long value below it, of detail_line.xml. */
internal fun ViewGroup.addDetail(label: String, value: String) {
    val line = LayoutInflater.from(context).inflate(R.layout.detail_line, this, false)
    line.findViewById<TextView>(R.id.detail_label).text = label
    line.findViewById<TextView>(R.id.detail_value).text = value
    addView(line)
}
