package dev.litenlp.app.ui.translate

import android.content.Context
import android.os.Bundle
import android.text.Spannable
import android.text.style.LocaleSpan
import android.view.Menu
import android.view.MenuItem
import android.view.View
import android.view.inputmethod.InputMethodManager
import android.widget.Button
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.inference.TranslateSession.Reason
import dev.litenlp.app.inference.TranslationJob
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.IncomingText
import dev.litenlp.app.ui.InstallCard
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.history.HistoryRow
import java.util.Locale

/** The translate screen. Its state is in the [TranslateSession]. */
class TranslateScreen : Screen(R.layout.translate) {
    private val session: TranslateSession get() = services.translate
    private lateinit var input: InputField
    private lateinit var installCard: InstallCard
    private lateinit var output: TextView
    private var observed: TranslationJob? = null
    private val draw: () -> Unit = ::drawAll
    private val drawJob: () -> Unit = ::drawTranslation
    private val countTokens = Runnable { requestCount() }

    override fun onCreated(saved: Bundle?) {
        output = find(R.id.output)
        installCard = InstallCard(find(R.id.install_card), onCancel = null)
        input = InputField(find(R.id.input), ::onInput, ::onCut)
        input.show(session.input)
        saved?.let { restoreCursor(it) }
        onClick(R.id.translate) { translate() }
        onClick(R.id.stop) { session.job?.cancel() }
        onClick(R.id.clear) { replace("", Reason.CLEARED) }
        onClick(R.id.paste) { paste() }
        onClick(R.id.copy) { Clipboard.copy(context, session.output, R.string.copied) }
        onClick(R.id.share) { Clipboard.share(activity, session.output) }
        onClick(R.id.error_retry) { retry() }
        onClick(R.id.error_log) { Clipboard.copyLog(context) }
        onClick(R.id.no_model_retry) { services.models.start() }
        onClick(R.id.no_model_open) { host.show(Screens.MODELS) }
        onClick(R.id.no_model_log) { Clipboard.copyLog(context) }
        onClick(R.id.replaced_undo) { undo() }
        onClick(R.id.replaced_dismiss) { dismissReplaced() }
        onClick(R.id.recent_all) { host.show(Screens.HISTORY) }
    }

    override fun onStart() {
        services.models.changes.observe(draw)
        services.history.changes.observe(draw)
        services.history.load()
        drawAll()
    }

    override fun onStop() {
        services.models.changes.ignore(draw)
        services.history.changes.ignore(draw)
        services.main.removeCallbacks(countTokens)
        observe(null)
    }

    override fun onSaveState(state: Bundle) {
        state.putInt(CURSOR_START, input.view.selectionStart)
        state.putInt(CURSOR_END, input.view.selectionEnd)
        state.putBoolean(CUT, isShown(R.id.cut))
    }

    override fun onCreateActions(menu: Menu) {
        menu.add(Menu.NONE, R.id.action_history, Menu.NONE, R.string.screen_history)
            .setIcon(R.drawable.ic_history)
            .setShowAsAction(MenuItem.SHOW_AS_ACTION_IF_ROOM)
    }

    override fun onAction(id: Int): Boolean {
        if (id != R.id.action_history) return false
        host.show(Screens.HISTORY)
        return true
    }

    private fun restoreCursor(saved: Bundle) {
        val length = input.view.text.length
        val start = saved.getInt(CURSOR_START, length).coerceIn(0, length)
        input.view.setSelection(start, saved.getInt(CURSOR_END, start).coerceIn(start, length))
        if (saved.getBoolean(CUT)) onCut()
    }

    private fun onInput(text: String) {
        if (text != session.input) {
            session.input = text
            if (text.length < IncomingText.MAX_CHARS) show(R.id.cut, false)
        }
        drawInput()
    }

    private fun onCut() {
        val most = Sentences.count(context, IncomingText.MAX_CHARS)
        find<TextView>(R.id.cut).text = context.getString(R.string.text_cut, most)
        show(R.id.cut, true)
    }

    private fun translate() {
        hideKeyboard()
        if (session.input.isBlank()) return
        session.translate()
        drawAll()
    }

    private fun retry() {
        services.engines.forgetFailures()
        translate()
    }

    private fun paste() {
        val text = Clipboard.paste(context)
        if (text == null) Clipboard.say(context, R.string.clipboard_empty) else replace(text, Reason.PASTED)
    }

    private fun replace(text: String, reason: Reason) {
        session.replace(text, reason)
        input.show(session.input)
        drawAll()
    }

    private fun undo() {
        session.undo()
        input.show(session.input)
        drawAll()
    }

    private fun dismissReplaced() {
        session.dismissReplaced()
        drawReplaced()
    }

    private fun drawAll() {
        observe(session.job)
        drawModel()
        drawReplaced()
        drawInput()
        drawTranslation()
        drawRecent()
    }

    private fun observe(job: TranslationJob?) {
        if (job === observed) return
        observed?.changes?.ignore(drawJob)
        observed = job
        job?.changes?.observe(drawJob)
    }

    private fun drawModel() {
        val models = services.models
        val model = models.selected
        installCard.show(models.installing.takeIf { model == null })
        val isMissing = model == null && !models.isPreparing && models.installing == null
        show(R.id.no_model_card, isMissing)
        if (isMissing) {
            val problem = models.failure?.problem
            find<TextView>(R.id.no_model_text).text =
                problem?.let { Sentences.about(context, it) } ?: context.getString(R.string.no_model_text)
        }
        val languages = model?.bundle?.manifest?.languages
        find<TextView>(R.id.source_language).text =
            languages?.let { Sentences.languageName(context, it.src) } ?: context.getString(R.string.source_text)
        find<TextView>(R.id.target_language).text =
            languages?.let { Sentences.languageName(context, it.tgt) } ?: context.getString(R.string.translation)
    }

    private fun drawReplaced() {
        val replaced = session.replaced
        show(R.id.replaced_card, replaced != null)
        if (replaced == null) return
        find<TextView>(R.id.replaced_text).setText(
            when (replaced.reason) {
                Reason.SHARED -> R.string.replaced_shared
                Reason.PASTED -> R.string.replaced_pasted
                Reason.CLEARED -> R.string.replaced_cleared
                Reason.FROM_HISTORY -> R.string.replaced_history
            },
        )
    }

    private fun drawInput() {
        val text = session.input
        show(R.id.paste, text.isEmpty())
        show(R.id.clear, text.isNotEmpty())
        val canWork = services.models.selected != null || services.models.isPreparing
        find<Button>(R.id.translate).isEnabled = text.isNotBlank() && canWork
        drawCount(null)
        services.main.removeCallbacks(countTokens)
        if (text.isNotEmpty()) services.main.postDelayed(countTokens, COUNT_DELAY_MS)
    }

    private fun requestCount() {
        val model = services.models.selected ?: return
        services.tokens.count(model, session.input, ::drawCount)
    }

    private fun drawCount(tokens: Int?) {
        val text = session.input
        val characters = text.codePointCount(0, text.length)
        val counted = resources.getQuantityString(R.plurals.characters, characters, Sentences.count(context, characters))
        val parts = listOfNotNull(counted, tokens?.let { Outcomes.tokens(context, it) })
        find<TextView>(R.id.count).text = parts.joinToString(context.getString(R.string.separator))
        show(R.id.count, text.isNotEmpty())
    }

    private fun drawTranslation() {
        val job = session.job
        val outcome = job?.outcome
        val isRunning = job != null && outcome == null
        show(R.id.translate, !isRunning)
        show(R.id.stop, isRunning)
        val hasEnded = outcome is Outcome.Done || outcome is Outcome.Cancelled
        show(R.id.output_card, isRunning || hasEnded || session.output.isNotEmpty())
        show(R.id.output, session.output.isNotEmpty())
        show(R.id.busy, isRunning)
        drawOutput(session.output, isFinished = !isRunning)
        val status = job?.let { Outcomes.status(context, it) }.orEmpty()
        // Only what differs: TalkBack says it whenever it is set.
        find<TextView>(R.id.status).let { if (it.text.toString() != status) it.text = status }
        show(R.id.status, status.isNotEmpty())
        val canHandOver = !isRunning && session.output.isNotEmpty()
        show(R.id.copy, canHandOver)
        show(R.id.share, canHandOver)
        drawNotices((outcome as? Outcome.Done)?.let { Outcomes.notices(context, it) }.orEmpty())
        drawFailure(outcome as? Outcome.Failed)
    }

    /** Appends to a growing text instead of replacing it: the selection stays, and less is laid out anew. */
    private fun drawOutput(text: String, isFinished: Boolean) {
        val shown = output.text
        when {
            shown.contentEquals(text) -> Unit
            shown.isNotEmpty() && text.startsWith(shown.toString()) -> output.append(text.substring(shown.length))
            else -> output.setText(text, TextView.BufferType.EDITABLE)
        }
        if (isFinished) markLanguage(output.text as? Spannable ?: return)
    }

    /** Marks the text with its language, in which TalkBack then reads it. */
    private fun markLanguage(text: Spannable) {
        val language = services.models.selected?.bundle?.manifest?.languages?.tgt ?: return
        for (old in text.getSpans(0, text.length, LocaleSpan::class.java)) text.removeSpan(old)
        text.setSpan(LocaleSpan(Locale.forLanguageTag(language)), 0, text.length, Spannable.SPAN_EXCLUSIVE_EXCLUSIVE)
    }

    private fun drawNotices(notices: List<String>) {
        val list = find<LinearLayout>(R.id.notices)
        val shown = (0 until list.childCount).map { (list.getChildAt(it) as TextView).text.toString() }
        if (shown == notices) return
        list.removeAllViews()
        for (notice in notices) {
            activity.layoutInflater.inflate(R.layout.notice, list, false).let {
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

    private fun drawRecent() {
        val entries = services.history.entries
        val recent = entries.filterNot { it.source == session.input }.take(RECENT)
        val list = find<LinearLayout>(R.id.recent)
        show(R.id.recent_title, recent.isNotEmpty())
        show(R.id.recent, recent.isNotEmpty())
        show(R.id.recent_all, recent.isNotEmpty())
        list.removeAllViews()
        for (entry in recent) {
            val row = activity.layoutInflater.inflate(R.layout.history_row, list, false)
            HistoryRow(row).show(entry, onDelete = null)
            row.setOnClickListener {
                session.replace(entry.source, Reason.FROM_HISTORY, entry.target)
                input.show(session.input)
                drawAll()
            }
            list.addView(row)
        }
    }

    private fun hideKeyboard() {
        val manager = context.getSystemService(Context.INPUT_METHOD_SERVICE) as InputMethodManager
        manager.hideSoftInputFromWindow(view.windowToken, 0)
    }

    private fun onClick(id: Int, action: () -> Unit) = find<View>(id).setOnClickListener { action() }

    private fun isShown(id: Int) = find<View>(id).visibility == View.VISIBLE

    private fun show(id: Int, isShown: Boolean) {
        find<View>(id).visibility = if (isShown) View.VISIBLE else View.GONE
    }

    private companion object {
        const val CURSOR_START = "cursor_start"
        const val CURSOR_END = "cursor_end"
        const val CUT = "cut"
        const val COUNT_DELAY_MS = 250L
        const val RECENT = 3
    }
}
