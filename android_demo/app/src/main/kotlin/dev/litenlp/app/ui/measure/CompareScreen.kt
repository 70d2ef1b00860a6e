package dev.litenlp.app.ui.measure

import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.measure.CompareJob
import dev.litenlp.app.measure.Comparison
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.measure.ModelJob
import dev.litenlp.app.measure.Side
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.translate.InputField

/** One text in both runtimes: whether the outputs are the same, and the times beside each other. */
class CompareScreen : Screen(R.layout.compare) {
    private lateinit var input: InputField
    private lateinit var error: ErrorCard
    private var observed: CompareJob? = null
    private val draw: () -> Unit = ::drawAll

    override fun onCreated(saved: Bundle?) {
        error = ErrorCard(find(R.id.measure_error))
        input = InputField(find(R.id.compare_input), ::onInput) { Clipboard.say(context, R.string.problem_too_large) }
        input.show(services.translate.input)
        find<View>(R.id.compare_example).setOnClickListener { input.show(context.getString(R.string.compare_example_text)) }
        find<View>(R.id.compare_start).setOnClickListener {
            services.measurements.compare(services.translate.input)
            drawAll()
        }
        find<View>(R.id.compare_stop).setOnClickListener { services.measurements.comparison?.cancel() }
        find<View>(R.id.compare_log).setOnClickListener { Clipboard.copyLog(context) }
    }

    override fun onStart() = drawAll()

    override fun onStop() {
        observed?.changes?.ignore(draw)
        observed = null
        services.translate.save()
    }

    private fun onInput(text: String) {
        services.translate.edit(text)
        drawInput()
    }

    private fun drawInput() {
        val text = services.translate.input
        find<View>(R.id.compare_example).showIf(text.isEmpty())
        find<View>(R.id.compare_start).isEnabled = text.isNotBlank()
    }

    private fun drawAll() {
        val job = services.measurements.comparison
        if (job !== observed) {
            observed?.changes?.ignore(draw)
            job?.changes?.observe(draw)
            observed = job
        }
        drawInput()
        val ending = job?.ending
        val isRunning = job != null && ending == null
        find<View>(R.id.compare_start).showIf(!isRunning)
        find<View>(R.id.compare_stop).showIf(isRunning)
        find<View>(R.id.compare_busy).showIf(isRunning || ending is Ending.Cancelled)
        if (job != null) find<TextView>(R.id.compare_status).text = status(job)
        error.show(ending, R.string.no_runtime_title)
        val done = (ending as? Ending.Done)?.value
        find<View>(R.id.compare_result).showIf(done != null)
        if (done != null) drawResult(done)
    }

    private fun status(job: CompareJob): String {
        if (job.ending is Ending.Cancelled) return context.getString(R.string.status_cancelled_early)
        val runtime = job.running
        if (job.stage == ModelJob.Stage.WAITING || runtime == null) return context.getString(R.string.compare_waiting)
        return context.getString(R.string.compare_running, Sentences.runtimeName(runtime))
    }

    private fun drawResult(done: Comparison) {
        drawVerdict(done)
        drawTimes(done)
        val sides = find<ViewGroup>(R.id.compare_sides)
        sides.removeAllViews()
        val made = done.made
        if (made.size > 1 && done.difference == null) {
            sides.addSide(context.getString(R.string.compare_output_both), made[0].translation.text)
        }
        for (side in done.sides) {
            val name = Sentences.runtimeName(side.runtime)
            when (side) {
                is Side.Made -> if (made.size < 2 || done.difference != null) sides.addSide(name, side.translation.text)
                is Side.Missing -> sides.addSide(name, Sentences.about(context, side.problem))
            }
        }
    }

    private fun drawVerdict(done: Comparison) {
        val title = find<TextView>(R.id.compare_verdict_title)
        val text = find<TextView>(R.id.compare_verdict_text)
        val made = done.made
        val difference = done.difference
        val tokens = made[0].translation.targetTokens
        val (card, color) = when {
            difference != null -> R.drawable.card_error to R.color.on_error_container
            made.size < 2 -> R.drawable.card_notice to R.color.on_notice_container
            else -> R.drawable.card_good to R.color.on_good_container
        }
        find<View>(R.id.compare_verdict).setBackgroundResource(card)
        find<View>(R.id.compare_log).showIf(made.size < 2 || difference != null)
        title.setTextColor(context.getColor(color))
        text.setTextColor(context.getColor(color))
        when {
            difference != null -> {
                title.setText(R.string.compare_differ_title)
                text.text = whereTheyPart(done)
            }
            made.size < 2 -> {
                title.text = context.getString(R.string.compare_one_title, name(made[0]))
                text.setText(R.string.compare_one)
            }
            else -> {
                title.setText(R.string.compare_same_title)
                text.text = if (tokens == 0) {
                    context.getString(R.string.compare_empty)
                } else {
                    resources.getQuantityString(
                        R.plurals.compare_same,
                        tokens,
                        Sentences.count(context, tokens),
                        name(made[0]),
                        name(made[1]),
                    )
                }
            }
        }
    }

    private fun whereTheyPart(done: Comparison): String {
        val difference = done.difference ?: return ""
        val end = context.getString(R.string.compare_end)
        val token = Sentences.count(context, difference.token)
        val first = difference.ids.first?.toString() ?: end
        val second = difference.ids.second?.toString() ?: end
        val (one, other) = done.made
        val where = if (one.translation.pieces == 1) {
            context.getString(R.string.compare_differ, token, name(one), first, name(other), second)
        } else {
            val piece = Sentences.count(context, difference.piece)
            context.getString(R.string.compare_differ_piece, piece, token, name(one), first, name(other), second)
        }
        if (difference.common.isBlank()) return where
        return "$where\n${context.getString(R.string.compare_differ_after, difference.common.trim())}"
    }

    private fun drawTimes(done: Comparison) {
        fun row(label: Int, value: (Side.Made) -> String) =
            FigureTable.Row(context.getString(label), done.sides.map { side -> (side as? Side.Made)?.let(value) })
        val names = done.sides.map { Sentences.runtimeName(it.runtime) }
        FigureTable(find(R.id.compare_times)).show(
            corner = "",
            columns = names.map { it.replace(' ', '\n') },
            spoken = names,
            content = listOf(
                row(R.string.compare_load) { Sentences.duration(context, it.loadMs) },
                row(R.string.compare_first) { Sentences.duration(context, it.translation.firstTokenMs) },
                row(R.string.compare_total) { Sentences.duration(context, it.translation.totalMs) },
                row(R.string.tokens_per_second) { Sentences.decimal(context, it.tokensPerSecond, 0) },
                row(R.string.compare_version) { it.version },
            ),
        )
        find<TextView>(R.id.compare_note).text = context.getString(R.string.compare_note, Figures.threads(context, done.threads))
    }

    private fun name(side: Side): String = Sentences.runtimeName(side.runtime)

    private fun ViewGroup.addSide(title: String, text: String) {
        val card = activity.layoutInflater.inflate(R.layout.compare_side, this, false)
        card.findViewById<TextView>(R.id.side_title).text = title
        card.findViewById<TextView>(R.id.side_text).text = text
        addView(card)
    }
}
