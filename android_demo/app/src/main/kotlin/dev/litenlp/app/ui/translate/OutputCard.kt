package dev.litenlp.app.ui.translate

import android.text.Spannable
import android.text.style.LocaleSpan
import android.view.LayoutInflater
import android.view.View
import android.widget.ImageButton
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.inference.TranslationJob

/** The translation (translate_output.xml): its text, what can be done with it, notices and failures. */
class OutputCard(private val view: View) {
    private val context = view.context
    private val output: TextView = find(R.id.output)

    /**
     * Draws the state of a session.
     *
     * @param language code of the translation's language, null if it is not known
     * @param showsFigures whether time, tokens and Mult-Adds belong on the screen
     */
    fun draw(session: TranslateSession, language: String?, showsFigures: Boolean) {
        val job = session.job
        val outcome = job?.outcome
        val isRunning = job != null && outcome == null
        val hasEnded = outcome is Outcome.Done || outcome is Outcome.Cancelled
        show(R.id.output_card, isRunning || hasEnded || session.output.isNotEmpty())
        show(R.id.stop, isRunning)
        show(R.id.output, session.output.isNotEmpty())
        find<View>(R.id.busy).visibility = if (isRunning) View.VISIBLE else View.INVISIBLE
        output.alpha = if (session.isOutdated) OUTDATED else 1f
        drawText(session.output, language.takeUnless { isRunning })
        drawStatus(job, session.output.isEmpty(), showsFigures)
        val canHandOver = !isRunning && session.output.isNotEmpty()
        show(R.id.copy, canHandOver)
        show(R.id.share, canHandOver)
        show(R.id.speak, canHandOver && language != null)
        // What was stopped is no translation to keep.
        show(R.id.favourite, canHandOver && outcome !is Outcome.Cancelled && session.isCurrent)
        drawNotices((outcome as? Outcome.Done)?.let { Outcomes.notices(context, it) }.orEmpty())
        drawFailure(outcome as? Outcome.Failed)
    }

    /** Draws the button that reads aloud, or ends that. */
    fun drawSpeaking(isSpeaking: Boolean) {
        val (icon, text) = if (isSpeaking) R.drawable.ic_stop to R.string.speak_stop else R.drawable.ic_speak to R.string.speak
        drawButton(R.id.speak, icon, text)
    }

    /** Draws the star. */
    fun drawFavourite(isFavourite: Boolean) {
        if (isFavourite) {
            drawButton(R.id.favourite, R.drawable.ic_star_filled, R.string.favourite_remove)
        } else {
            drawButton(R.id.favourite, R.drawable.ic_star, R.string.favourite_add)
        }
        find<View>(R.id.favourite).isSelected = isFavourite
    }

    private fun drawButton(id: Int, icon: Int, text: Int) {
        val button = find<ImageButton>(id)
        button.setImageResource(icon)
        button.contentDescription = context.getString(text)
        button.tooltipText = context.getString(text)
    }

    private fun drawStatus(job: TranslationJob?, isEmpty: Boolean, showsFigures: Boolean) {
        // Every pause of a person who types would move what is below, and TalkBack would talk all the time.
        val isQuiet = job != null && job.isTyped && job.outcome == null && !isEmpty
        val status = if (job == null || isQuiet) "" else Outcomes.status(context, job, showsFigures)
        // Only what differs: TalkBack says it whenever it is set.
        find<TextView>(R.id.status).let { if (it.text.toString() != status) it.text = status }
        show(R.id.status, status.isNotEmpty())
    }

    /** Appends to a growing text instead of replacing it: the selection stays, and less is laid out anew. */
    private fun drawText(text: String, language: String?) {
        val shown = output.text
        when {
            shown.contentEquals(text) -> Unit
            shown.isNotEmpty() && text.startsWith(shown.toString()) -> output.append(text.substring(shown.length))
            else -> output.setText(text, TextView.BufferType.EDITABLE)
        }
        if (language != null) markLanguage(output.text as? Spannable ?: return, language)
    }

    /** Marks the text with its language, in which TalkBack then reads it. */
    private fun markLanguage(text: Spannable, language: String) {
        for (old in text.getSpans(0, text.length, LocaleSpan::class.java)) text.removeSpan(old)
        text.setSpan(LocaleSpan(Sentences.localeOf(language)), 0, text.length, Spannable.SPAN_EXCLUSIVE_EXCLUSIVE)
    }

    private fun drawNotices(notices: List<String>) {
        val list = find<LinearLayout>(R.id.notices)
        val shown = (0 until list.childCount).map { (list.getChildAt(it) as TextView).text.toString() }
        if (shown == notices) return
        list.removeAllViews()
        for (notice in notices) {
            LayoutInflater.from(context).inflate(R.layout.notice, list, false).let {
                (it as TextView).text = notice
                list.addView(it)
            }
        }
    }

    private fun drawFailure(failed: Outcome.Failed?) {
        show(R.id.error_card, failed != null)
        if (failed == null) return
        val title = if (failed.failures.isEmpty()) R.string.error_title else R.string.no_runtime_title
        find<TextView>(R.id.error_title).setText(title)
        val reasons = failed.failures.map {
            val name = Sentences.runtimeName(it.runtime)
            context.getString(R.string.no_runtime_reason, name, Sentences.about(context, it.problem))
        }
        val text = if (reasons.isEmpty()) {
            Sentences.about(context, failed.problem)
        } else {
            (reasons + context.getString(R.string.no_runtime_text)).joinToString("\n\n")
        }
        find<TextView>(R.id.error_text).let { if (it.text.toString() != text) it.text = text }
    }

    private fun <T : View> find(id: Int): T = view.findViewById(id)

    private fun show(id: Int, isShown: Boolean) {
        find<View>(id).visibility = if (isShown) View.VISIBLE else View.GONE
    }

    private companion object {
        const val OUTDATED = 0.45f
    }
}
