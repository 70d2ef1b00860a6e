package dev.litenlp.app.ui

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.view.View
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.Services
import dev.litenlp.app.inference.Outcome
import dev.litenlp.app.inference.TranslationJob
import dev.litenlp.app.ui.translate.Outcomes

/** A small window over another app: translates what was selected there, and puts it in its place if that app allows. */
class SelectionActivity : Activity() {
    private val services: Services get() = Services.of(this)
    private lateinit var text: String
    private var job: TranslationJob? = null
    private var wasCut = false
    private val draw: () -> Unit = ::drawAll

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.selection)
        val selected = IncomingText.read(intent, Intent.EXTRA_PROCESS_TEXT, services.log).orEmpty()
        text = IncomingText.bound(selected)
        wasCut = text.length < selected.length
        job = lastNonConfigurationInstance as TranslationJob? ?: begin()
        onClick(R.id.selection_copy) { Clipboard.copy(this, job?.partial.orEmpty(), R.string.copied) }
        onClick(R.id.selection_replace) { giveBack() }
        onClick(R.id.selection_open) { openInApp() }
        onClick(R.id.selection_close) { finish() }
        onClick(R.id.selection_log) { Clipboard.copyLog(this) }
    }

    private fun begin(): TranslationJob? {
        if (text.isBlank()) return null
        return TranslationJob(services, text).also { it.start() }
    }

    override fun onStart() {
        super.onStart()
        job?.changes?.observe(draw)
        drawAll()
    }

    override fun onStop() {
        job?.changes?.ignore(draw)
        super.onStop()
    }

    /** A rotation does not begin anew. */
    override fun onRetainNonConfigurationInstance(): Any? = job

    override fun onDestroy() {
        if (isFinishing) job?.cancel()
        super.onDestroy()
    }

    private fun giveBack() {
        setResult(RESULT_OK, Intent().putExtra(Intent.EXTRA_PROCESS_TEXT, job?.partial.orEmpty()))
        finish()
    }

    private fun openInApp() {
        val open = Intent(this, MainActivity::class.java)
            .setAction(Intent.ACTION_SEND)
            .setType("text/plain")
            .putExtra(Intent.EXTRA_TEXT, text)
            .addFlags(Intent.FLAG_ACTIVITY_NEW_TASK)
        startActivity(open)
        finish()
    }

    private fun drawAll() {
        val job = job
        val outcome = job?.outcome
        val languages = services.models.selected?.bundle?.manifest
        find(R.id.selection_title).text = languages?.let { Sentences.languagePair(this, it) } ?: getString(R.string.translation)
        show(find(R.id.selection_source), IncomingText.beginning(text))
        show(find(R.id.selection_output), job?.partial.orEmpty())
        setShown(R.id.selection_busy, job != null && outcome == null)
        find(R.id.selection_status).let {
            val status = status(job)
            if (it.text.toString() != status) show(it, status)
        }
        val isDone = outcome is Outcome.Done
        val isReadOnly = intent.getBooleanExtra(Intent.EXTRA_PROCESS_TEXT_READONLY, false) || callingActivity == null
        setShown(R.id.selection_copy, isDone)
        setShown(R.id.selection_replace, isDone && !isReadOnly && !wasCut)
        setShown(R.id.selection_log, outcome is Outcome.Failed || outcome is Outcome.NoModel)
    }

    private fun setShown(id: Int, isShown: Boolean) {
        findViewById<View>(id).visibility = if (isShown) View.VISIBLE else View.GONE
    }

    private fun status(job: TranslationJob?): String {
        if (job == null) return getString(R.string.selection_empty)
        val said = ArrayList<String>()
        when (val outcome = job.outcome) {
            is Outcome.NoModel ->
                said += outcome.problem?.let { Sentences.about(this, it) } ?: getString(R.string.no_model_text)
            is Outcome.Failed -> {
                said += Sentences.about(this, outcome.problem)
                for (failure in outcome.failures) {
                    val name = Sentences.runtimeName(failure.runtime)
                    said += getString(R.string.no_runtime_reason, name, Sentences.about(this, failure.problem))
                }
            }
            is Outcome.Done -> {
                said += Outcomes.notices(this, outcome)
                said += Outcomes.status(this, job, services.preferences.showsFigures)
            }
            else -> said += Outcomes.status(this, job, services.preferences.showsFigures)
        }
        if (wasCut) said += getString(R.string.text_cut, Sentences.count(this, IncomingText.MAX_CHARS))
        return said.distinct().joinToString("\n")
    }

    private fun find(id: Int): TextView = findViewById(id)

    private fun show(view: TextView, text: String) {
        view.text = text
        view.visibility = if (text.isEmpty()) View.GONE else View.VISIBLE
    }

    private fun onClick(id: Int, action: () -> Unit) = findViewById<View>(id).setOnClickListener { action() }
}
