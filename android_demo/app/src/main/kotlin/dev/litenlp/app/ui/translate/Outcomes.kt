package dev.litenlp.app.ui.translate

import android.content.Context
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslationJob
import dev.litenlp.app.ui.measure.Figures
import dev.litenlp.core.search.Notice

/** Messages about a translation, for the translate screen and the window over other apps. */
object Outcomes {
    /** The line below the translation: what it waits for, or with [showsFigures] what made it and how fast. */
    fun status(context: Context, job: TranslationJob, showsFigures: Boolean): String = when (job.stage) {
        TranslationJob.Stage.WAITING -> context.getString(R.string.status_waiting)
        TranslationJob.Stage.LOADING -> context.getString(R.string.status_loading)
        TranslationJob.Stage.TRANSLATING -> context.getString(R.string.status_translating)
        TranslationJob.Stage.FINISHED -> when (val outcome = job.outcome) {
            is Outcome.Done -> end(context, outcome, showsFigures)
            is Outcome.Cancelled ->
                context.getString(if (job.partial.isEmpty()) R.string.status_cancelled_early else R.string.status_cancelled)
            else -> ""
        }
    }

    private fun end(context: Context, done: Outcome.Done, showsFigures: Boolean): String = when {
        done.translation.pieces == 0 -> context.getString(R.string.nothing_translated)
        showsFigures -> figures(context, done)
        else -> ""
    }

    private fun figures(context: Context, done: Outcome.Done): String {
        val made = done.translation
        val macs = made.executedMacs.takeIf { it > 0 }
        val parts = listOfNotNull(
            "${Sentences.runtimeName(done.runtime)} ${done.version}".trim(),
            context.resources.getQuantityString(R.plurals.threads, done.threads, Sentences.count(context, done.threads)),
            tokens(context, made.targetTokens),
            context.getString(R.string.status_first_token, Sentences.duration(context, made.firstTokenMs)),
            context.getString(R.string.status_total, Sentences.duration(context, made.totalMs)),
            macs?.let { context.getString(R.string.status_macs, Figures.millions(context, it)) },
        )
        return parts.joinToString(context.getString(R.string.separator))
    }

    /** Sentences that a reader of the translation should know, the most important first. */
    fun notices(context: Context, done: Outcome.Done): List<String> {
        val found = ArrayList<String>()
        done.fallback?.let {
            found += context.getString(
                R.string.notice_fallback,
                Sentences.runtimeName(it.runtime),
                Sentences.runtimeName(done.runtime),
                Sentences.about(context, it.problem),
            )
        }
        val notices = done.translation.notices
        notices.filterIsInstance<Notice.Unfamiliar>().maxOfOrNull { it.fraction }?.let {
            found += context.getString(R.string.notice_unfamiliar, Sentences.percent(context, it))
        }
        val cut = notices.filterIsInstance<Notice.Cut>()
        if (cut.isNotEmpty()) found += lines(context, R.plurals.notice_cut, cut.size, cut.sumOf { it.pieces })
        val truncated = notices.filterIsInstance<Notice.Truncated>()
        if (truncated.isNotEmpty()) found += lines(context, R.plurals.notice_truncated, truncated.size, 0)
        return found
    }

    /** "12 tokens". */
    fun tokens(context: Context, count: Int): String =
        context.resources.getQuantityString(R.plurals.tokens, count, Sentences.count(context, count))

    private fun lines(context: Context, plural: Int, lines: Int, pieces: Int): String = context.resources
        .getQuantityString(plural, lines, Sentences.count(context, lines), Sentences.count(context, pieces))
}
