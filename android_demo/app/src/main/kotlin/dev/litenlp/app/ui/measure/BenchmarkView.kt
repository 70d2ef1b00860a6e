package dev.litenlp.app.ui.measure

import android.content.Context
import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.measure.BenchmarkJob
import dev.litenlp.app.measure.MeasuredReport
import dev.litenlp.app.measure.MeasuredRow
import dev.litenlp.app.ui.translate.Outcomes

/** A benchmark's report: a table per runtime with a column per count of threads, and the device. */
class BenchmarkView(private val view: View) {
    private val context = view.context

    fun show(report: MeasuredReport) {
        text(R.id.benchmark_about).text = context.getString(R.string.benchmark_about, report.modelName, sentences(report))
        text(R.id.benchmark_tokens).apply {
            setText(if (report.hasSameTokens) R.string.benchmark_same else R.string.benchmark_differ)
            setBackgroundResource(if (report.hasSameTokens) R.drawable.card_good else R.drawable.card_error)
            setTextColor(context.getColor(if (report.hasSameTokens) R.color.on_good_container else R.color.on_error_container))
            showIf(report.rows.size > 1)
        }
        val tables = view.findViewById<ViewGroup>(R.id.benchmark_tables)
        tables.removeAllViews()
        for (rows in report.rows.groupBy { it.runtime }.values) addTable(tables, rows)
        drawDevice(report)
    }

    private fun sentences(report: MeasuredReport): String = context.resources.getQuantityString(
        R.plurals.benchmark_sentences,
        report.sentences,
        Sentences.count(context, report.sentences),
        Outcomes.tokens(context, report.sourceTokens),
        Outcomes.tokens(context, report.targetTokens),
        Sentences.count(context, report.repeats),
    )

    private fun addTable(tables: ViewGroup, rows: List<MeasuredRow>) {
        val card = LayoutInflater.from(context).inflate(R.layout.benchmark_table, tables, false)
        val title = card.findViewById<TextView>(R.id.table_title)
        title.text = "${Sentences.runtimeName(rows[0].runtime)} ${rows[0].version}".trim()
        fun row(label: Int, value: (MeasuredRow) -> String?) = FigureTable.Row(context.getString(label), rows.map(value))
        fun time(label: Int, value: (MeasuredRow) -> Double) = row(label) { Sentences.duration(context, value(it)) }
        FigureTable(card.findViewById(R.id.table)).show(
            corner = context.getString(R.string.benchmark_column_threads),
            columns = rows.map { Sentences.count(context, it.threads) },
            spoken = rows.map { Figures.threads(context, it.threads) },
            content = listOf(
                row(R.string.detail_precision) { it.precision },
                row(R.string.tokens_per_second) { Sentences.decimal(context, it.tokensPerSecond, 0) },
                row(R.string.benchmark_gmacs) { Figures.digits(context, it.gmacsPerSecond) },
                time(R.string.benchmark_first_p50) { it.firstTokenP50 },
                time(R.string.benchmark_first_p90) { it.firstTokenP90 },
                time(R.string.benchmark_sentence_p50) { it.sentenceP50 },
                time(R.string.benchmark_sentence_p90) { it.sentenceP90 },
                time(R.string.benchmark_load_cold) { it.loadColdMs },
                time(R.string.benchmark_load_warm) { it.loadWarmMs },
                row(R.string.benchmark_memory_loaded) { row -> row.loadedBytes?.let(::size) },
                row(R.string.benchmark_memory_peak) { row -> row.peakBytes?.let(::size) },
                row(R.string.benchmark_thermal) { row -> row.thermal?.let(::thermal) },
            ),
        )
        tables.addView(card)
    }

    /** The system may take memory away meanwhile, so that less is there than before. */
    private fun size(bytes: Long): String = Sentences.size(context, bytes.coerceAtLeast(0))

    private fun thermal(state: String): String = when (state) {
        "none" -> context.getString(R.string.thermal_none)
        "light" -> context.getString(R.string.thermal_light)
        "moderate" -> context.getString(R.string.thermal_moderate)
        "severe" -> context.getString(R.string.thermal_severe)
        "critical" -> context.getString(R.string.thermal_critical)
        else -> state
    }

    private fun drawDevice(report: MeasuredReport) {
        val list = view.findViewById<ViewGroup>(R.id.benchmark_device)
        list.removeAllViews()
        list.addLine(context.getString(R.string.benchmark_device_name), report.deviceName)
        list.addLine(context.getString(R.string.benchmark_device_os), report.os)
        val cores = Sentences.count(context, report.cores)
        list.addLine(
            context.getString(R.string.benchmark_device_cpu),
            context.getString(R.string.benchmark_device_cores, report.cpu, cores, report.abi),
        )
        list.addLine(context.getString(R.string.benchmark_device_memory), Sentences.size(context, report.memoryBytes))
        list.addDetail(context.getString(R.string.benchmark_device_features), report.cpuFeatures.joinToString(" "))
    }

    private fun text(id: Int): TextView = view.findViewById(id)
}

/** Progress line of a benchmark. */
internal fun benchmarkStatus(context: Context, job: BenchmarkJob): String {
    val progress = job.progress ?: return context.getString(R.string.benchmark_waiting)
    return context.getString(
        R.string.benchmark_running,
        Sentences.runtimeName(progress.runtime),
        Figures.threads(context, progress.threads),
        Sentences.count(context, progress.done),
        Sentences.count(context, progress.total),
    )
}
