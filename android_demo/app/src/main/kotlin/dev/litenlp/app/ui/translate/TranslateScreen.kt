package dev.litenlp.app.ui.translate

import android.content.Context
import android.os.Bundle
import android.view.View
import android.view.inputmethod.InputMethodManager
import android.widget.Button
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.inference.TranslateSession.Reason
import dev.litenlp.app.inference.TranslationJob
import dev.litenlp.app.models.Model
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.IncomingText
import dev.litenlp.app.ui.InstallCard
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.history.HistoryRow

/** The translate screen. Its state is in the [TranslateSession]. */
class TranslateScreen : Screen(R.layout.translate) {
    private val session: TranslateSession get() = services.translate
    private lateinit var input: InputField
    private lateinit var installCard: InstallCard
    private lateinit var languages: LanguageBar
    private lateinit var output: OutputCard
    private lateinit var handover: Handover
    private var observed: TranslationJob? = null
    private var isPauseAwaited = false
    private val draw: () -> Unit = ::drawAll
    private val drawJob: () -> Unit = ::drawTranslation
    private val countTokens = Runnable { requestCount() }
    private val translateTyped = Runnable {
        isPauseAwaited = false
        if (isTranslatedWhileTyping && session.needsTranslation) begin(isTyped = true)
    }

    override fun onCreated(saved: Bundle?) {
        installCard = InstallCard(find(R.id.install_card), onCancel = null)
        languages = LanguageBar(view, services.models, ::choose, { host.show(Screens.MODELS) }, ::swap)
        output = OutputCard(view)
        handover = Handover(host, output, ::language)
        input = InputField(find(R.id.input), ::onInput, ::onCut)
        input.show(session.input)
        saved?.let { restore(it) }
        onClick(R.id.translate) { translate() }
        onClick(R.id.stop) { session.job?.cancel() }
        onClick(R.id.clear) { replace("", Reason.CLEARED) }
        onClick(R.id.paste) { paste() }
        onClick(R.id.copy) { handover.copy() }
        onClick(R.id.share) { handover.share() }
        onClick(R.id.speak) { handover.speak() }
        onClick(R.id.favourite) { handover.mark() }
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
        handover.start()
        drawAll()
        if (languages.isChoosing) languages.choose()
    }

    override fun onStop() {
        services.models.changes.ignore(draw)
        services.history.changes.ignore(draw)
        services.main.removeCallbacks(countTokens)
        services.main.removeCallbacks(translateTyped)
        isPauseAwaited = false
        handover.stop()
        languages.hide()
        observe(null)
        session.settle()
    }

    override fun onSaveState(state: Bundle) {
        state.putInt(CURSOR_START, input.view.selectionStart)
        state.putInt(CURSOR_END, input.view.selectionEnd)
        state.putBoolean(CUT, isShown(R.id.cut))
        state.putBoolean(CHOOSING, languages.isChoosing)
    }

    private fun restore(saved: Bundle) {
        val length = input.view.text.length
        val start = saved.getInt(CURSOR_START, length).coerceIn(0, length)
        input.view.setSelection(start, saved.getInt(CURSOR_END, start).coerceIn(start, length))
        if (saved.getBoolean(CUT)) onCut()
        languages.isChoosing = saved.getBoolean(CHOOSING)
    }

    /** Whether the text is translated without being asked. A long one would keep a phone busy for nothing. */
    private val isTranslatedWhileTyping: Boolean
        get() = services.preferences.translatesWhileTyping && services.models.selected != null && session.input.length <= MOST_TYPED

    private fun onInput(text: String) {
        if (text == session.input) return drawInput()
        session.edit(text)
        if (text.length < IncomingText.MAX_CHARS) show(R.id.cut, false)
        observe(session.job)
        drawInput()
        drawTranslation()
        // The pause begins anew with every change.
        services.main.removeCallbacks(translateTyped)
        isPauseAwaited = false
        awaitPause()
    }

    private fun awaitPause() {
        if (isPauseAwaited || !isTranslatedWhileTyping || !session.needsTranslation) return
        isPauseAwaited = true
        services.main.postDelayed(translateTyped, PAUSE_MS)
    }

    private fun onCut() {
        val most = Sentences.count(context, IncomingText.MAX_CHARS)
        find<TextView>(R.id.cut).text = context.getString(R.string.text_cut, most)
        show(R.id.cut, true)
    }

    private fun translate() {
        hideKeyboard()
        if (session.input.isNotBlank()) begin(isTyped = false)
    }

    private fun begin(isTyped: Boolean) {
        session.translate(isTyped)
        drawAll()
    }

    private fun retry() {
        services.engines.forgetFailures()
        translate()
    }

    private fun choose(model: Model) {
        services.models.select(model)
        if (session.input.isNotBlank()) begin(isTyped = true) else drawAll()
    }

    private fun swap(reverse: Model) {
        session.swap()
        services.models.select(reverse)
        input.show(session.input)
        if (session.input.isNotBlank()) begin(isTyped = true) else drawAll()
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

    private fun reopen(entry: KeptTranslation) {
        host.reopen(entry)
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

    /** Code of the language of the output. */
    private fun language(): String? = session.languages?.second ?: services.models.selected?.languages?.second

    private fun drawAll() {
        observe(session.job)
        languages.draw()
        drawModel()
        drawReplaced()
        drawInput()
        drawTranslation()
        drawRecent()
        awaitPause()
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
        drawButton()
        drawCount(null)
        services.main.removeCallbacks(countTokens)
        if (text.isNotEmpty() && services.preferences.showsFigures) services.main.postDelayed(countTokens, COUNT_DELAY_MS)
    }

    /** The button is there where nothing happens without it. */
    private fun drawButton() {
        val outcome = session.job?.outcome
        val wasStopped = outcome is Outcome.Cancelled && !session.needsTranslation
        show(R.id.translate, !isTranslatedWhileTyping || wasStopped)
        val canWork = services.models.selected != null || services.models.isPreparing
        val isRunning = session.job != null && outcome == null
        find<Button>(R.id.translate).isEnabled = session.input.isNotBlank() && canWork && !isRunning
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
        show(R.id.count, text.isNotEmpty() && services.preferences.showsFigures)
    }

    private fun drawTranslation() {
        output.draw(session, language(), services.preferences.showsFigures)
        handover.draw()
        drawButton()
    }

    private fun drawRecent() {
        val recent = services.history.entries.filterNot { it.source == session.input }.take(RECENT)
        val list = find<LinearLayout>(R.id.recent)
        show(R.id.recent_title, recent.isNotEmpty())
        show(R.id.recent, recent.isNotEmpty())
        show(R.id.recent_all, recent.isNotEmpty())
        list.removeAllViews()
        for (entry in recent) {
            val row = activity.layoutInflater.inflate(R.layout.history_row, list, false)
            HistoryRow(row).show(entry, onDelete = null)
            row.setOnClickListener { reopen(entry) }
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

    companion object {
        /** Pause after which a text counts as typed. */
        const val PAUSE_MS = 600L

        /** Characters of the longest text that is translated while it is typed: a few seconds on a phone. */
        const val MOST_TYPED = 1_000

        private const val CURSOR_START = "cursor_start"
        private const val CURSOR_END = "cursor_end"
        private const val CUT = "cut"
        private const val CHOOSING = "choosing"
        private const val COUNT_DELAY_MS = 250L
        private const val RECENT = 3
    }
}
