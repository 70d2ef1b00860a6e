package dev.litenlp.app.ui.measure

import android.content.res.ColorStateList
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.ProgressBar
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.measure.SentenceWork
import dev.litenlp.app.models.Model
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.translate.Outcomes
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.metrics.BudgetCard
import dev.litenlp.core.metrics.GraphWork
import kotlin.math.roundToInt

/** Cost and quality of the model against the limits, and the cost of the last text. */
class BudgetScreen : Screen(R.layout.budget) {
    private val draw: () -> Unit = ::drawAll

    override fun onCreated(saved: Bundle?) = Unit

    override fun onStart() {
        services.models.changes.observe(draw)
        services.measurements.changes.observe(draw)
        services.measurements.load()
        drawAll()
    }

    override fun onStop() {
        services.models.changes.ignore(draw)
        services.measurements.changes.ignore(draw)
    }

    private fun drawAll() {
        val model = services.models.selected
        (view as ViewGroup).getChildAt(0).showIf(model != null)
        if (model == null) return
        val manifest = model.bundle.manifest
        val card = BudgetCard(manifest)
        text(R.id.budget_model).text =
            listOf(manifest.name, Sentences.languagePair(context, manifest)).distinct().joinToString(separator)
        drawVerdict(card)
        drawBar(R.id.budget_parameters, R.string.budget_parameters, card.parameterLimit, parametersText(card))
        drawBar(R.id.budget_macs, R.string.budget_macs, card.macLimit, macsText(card))
        drawSentence(model)
        drawSpeed(model)
        drawScores(card)
        drawSizes(model, card)
    }

    private fun drawVerdict(card: BudgetCard) {
        val parameters = card.parameterLimit
        val macs = card.macLimit
        val isKnown = parameters != null && macs != null
        val isWithin = isKnown && parameters.isWithin && macs.isWithin
        val (background, foreground) = when {
            isWithin -> R.drawable.card_good to R.color.on_good_container
            isKnown -> R.drawable.card_error to R.color.on_error_container
            else -> R.drawable.card_notice to R.color.on_notice_container
        }
        find<View>(R.id.budget_verdict_card).setBackgroundResource(background)
        val color = context.getColor(foreground)
        val title = text(R.id.budget_verdict)
        title.showIf(isKnown)
        title.setText(if (isWithin) R.string.budget_within else R.string.budget_exceeded)
        title.setTextColor(color)
        val said = text(R.id.budget_verdict_text)
        said.setTextColor(color)
        said.text = if (parameters == null || macs == null) {
            context.getString(R.string.budget_unknown)
        } else {
            context.getString(
                R.string.budget_verdict,
                millions(parameters.found),
                millions(parameters.limit),
                millions(macs.found),
                millions(macs.limit),
            )
        }
    }

    private fun drawBar(id: Int, title: Int, limit: BudgetCard.Limit?, about: String) {
        val card = find<View>(id)
        card.showIf(limit != null)
        if (limit == null) return
        card.findViewById<TextView>(R.id.bar_title).setText(title)
        card.findViewById<TextView>(R.id.bar_figure).text = millions(limit.found)
        card.findViewById<TextView>(R.id.bar_limit).text = context.getString(R.string.budget_of, millions(limit.limit))
        card.findViewById<TextView>(R.id.bar_text).text = about
        card.findViewById<ProgressBar>(R.id.bar).apply {
            progress = (limit.fraction * max).coerceAtMost(max.toDouble()).roundToInt()
            progressTintList = ColorStateList.valueOf(context.getColor(if (limit.isWithin) R.color.accent else R.color.error))
        }
        val name = context.getString(title)
        val said = context.getString(R.string.budget_bar, name, millions(limit.found), millions(limit.limit), percent(limit))
        card.contentDescription = "$said$separator$about"
    }

    private fun parametersText(card: BudgetCard): String {
        val parameters = card.parameters ?: return ""
        val limit = card.parameterLimit ?: return ""
        return context.getString(
            R.string.budget_parameters_text,
            percent(limit),
            millions(parameters.total),
            millions(parameters.embeddings),
        )
    }

    private fun macsText(card: BudgetCard): String {
        val macs = card.macs ?: return ""
        val limit = card.macLimit ?: return ""
        return context.getString(
            R.string.budget_macs_text,
            percent(limit),
            Sentences.count(context, macs.source),
            Sentences.count(context, macs.target),
            millions(macs.executed),
        )
    }

    /** The work of the text that was translated last; of one that is typed but not translated, what it will be. */
    private fun drawSentence(model: Model) {
        val figure = text(R.id.budget_sentence)
        val about = text(R.id.budget_sentence_text)
        val typed = services.translate.input
        val done = done(model)?.takeIf { services.translate.job?.text == typed || typed.isBlank() }
        val runtime = services.engines.runtimesOf(model.bundle, services.preferences.runtime).firstOrNull().orEmpty()
        val work = work(model.bundle.manifest, runtime)
        figure.showIf(false)
        when {
            done != null && done.translation.executedMacs > 0 -> {
                figure.showIf(true)
                figure.text = millions(done.translation.executedMacs)
                about.text = context.getString(
                    R.string.budget_sentence_done,
                    Sentences.runtimeName(done.runtime),
                    Outcomes.tokens(context, done.translation.sourceTokens),
                    Outcomes.tokens(context, done.translation.targetTokens),
                )
            }
            work == null -> about.setText(R.string.budget_sentence_unknown)
            typed.isBlank() -> about.setText(R.string.budget_sentence_empty)
            else -> estimate(model, work, typed)
        }
    }

    private fun work(manifest: Manifest, runtime: String): GraphWork? = try {
        GraphWork.of(manifest, runtime)
    } catch (error: LiteNlpException) {
        services.log.failure("work of the graphs", error)
        null
    }

    private fun estimate(model: Model, work: GraphWork, typed: String) {
        text(R.id.budget_sentence_text).text = ""
        val beamSize = services.preferences.beamSize
        services.files.run {
            val found = try {
                SentenceWork.estimate(typed, model.bundle.tokenizer(), work, model.bundle.manifest, beamSize)
            } catch (error: LiteNlpException) {
                services.log.failure("work of the text", error)
                services.main.post { text(R.id.budget_sentence_text).text = Sentences.about(context, error.problem) }
                return@run
            }
            services.main.post {
                if (services.translate.input != typed || services.models.selected?.id != model.id) return@post
                text(R.id.budget_sentence).showIf(true)
                text(R.id.budget_sentence).text = context.getString(R.string.budget_about, millions(found.macs))
                text(R.id.budget_sentence_text).text =
                    context.getString(R.string.budget_sentence_estimate, Outcomes.tokens(context, found.sourceTokens))
            }
        }
    }

    private fun drawSpeed(model: Model) {
        val figure = text(R.id.budget_speed)
        val last = done(model)?.takeIf { it.translation.executedMacs > 0 }
        val report = services.measurements.report?.takeIf { it.manifestSha256 == model.bundle.manifestSha256 }
        val best = report?.rows.orEmpty().maxByOrNull { it.gmacsPerSecond }
        val said = ArrayList<String>()
        if (last != null) {
            said += context.getString(
                R.string.budget_speed_last,
                "${Sentences.runtimeName(last.runtime)} ${last.version}".trim(),
                Figures.threads(context, last.threads),
                Sentences.duration(context, last.translation.totalMs),
            )
        }
        if (best != null) {
            said += context.getString(
                R.string.budget_speed_best,
                Figures.gmacs(context, best.gmacsPerSecond),
                Figures.threads(context, best.threads),
                Sentences.runtimeName(best.runtime),
            )
        }
        figure.showIf(last != null)
        if (last != null) {
            val speed = BudgetCard.gmacsPerSecond(last.translation.executedMacs, last.translation.totalMs)
            figure.text = Figures.gmacs(context, speed)
        }
        if (said.isEmpty()) said += context.getString(R.string.budget_speed_empty)
        text(R.id.budget_speed_text).text = said.joinToString("\n")
    }

    private fun drawScores(card: BudgetCard) {
        val list = find<ViewGroup>(R.id.budget_scores)
        list.removeAllViews()
        for (score in card.scores) {
            val figures = ArrayList<String>()
            score.bleu?.let { figures += context.getString(R.string.budget_bleu, oneDecimal(it)) }
            val low = score.bleuLow
            val high = score.bleuHigh
            if (low != null && high != null) {
                val range = context.getString(R.string.range, oneDecimal(low), oneDecimal(high))
                figures += context.getString(R.string.budget_bleu_interval, range)
            }
            score.chrf?.let { figures += context.getString(R.string.budget_chrf, oneDecimal(it)) }
            if (figures.isNotEmpty()) list.addLine(score.testSet, figures.joinToString("\n"))
        }
        if (list.childCount == 0) list.addLine(context.getString(R.string.budget_quality_empty), "")
    }

    private fun drawSizes(model: Model, card: BudgetCard) {
        val list = find<ViewGroup>(R.id.budget_sizes)
        list.removeAllViews()
        val packed = model.bundle.manifest.packed
        val archive = if (packed == null) R.string.budget_size_archive else R.string.budget_size_compact
        list.addLine(context.getString(archive), Sentences.size(context, card.archiveBytes))
        packed?.let { model.bundle.manifest.files[it.container] }?.let {
            list.addLine(context.getString(R.string.budget_size_weights), Sentences.size(context, it.sizeBytes))
        }
        list.addLine(context.getString(R.string.budget_size_installed), Sentences.size(context, model.bundle.sizeBytes))
        for (runtime in services.engines.runtimesOf(model.bundle)) {
            val bytes = card.graphBytes(runtime) ?: continue
            val label = context.getString(R.string.budget_size_graphs, Sentences.runtimeName(runtime))
            list.addLine(label, Sentences.size(context, bytes))
        }
    }

    /** The last translation if this model has made it. */
    private fun done(model: Model): Outcome.Done? =
        services.translate.job?.takeIf { it.model?.id == model.id }?.outcome as? Outcome.Done

    private fun millions(number: Long): String = Figures.millions(context, number)

    private fun percent(limit: BudgetCard.Limit): String = Sentences.percent(context, limit.fraction)

    private fun oneDecimal(number: Double): String = Sentences.decimal(context, number, 1)

    private fun text(id: Int): TextView = find(id)

    private val separator: String get() = context.getString(R.string.separator)
}
