package dev.litenlp.app.ui.models

import android.app.Activity
import android.app.AlertDialog
import android.content.ActivityNotFoundException
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.provider.OpenableColumns
import android.view.View
import android.widget.LinearLayout
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.models.Model
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.InstallCard
import dev.litenlp.app.ui.Screen
import java.io.FileNotFoundException

/** The installed models: selection, import and removal. */
class ModelsScreen : Screen(R.layout.models) {
    private lateinit var installCard: InstallCard
    private val draw: () -> Unit = ::drawAll
    private var dialog: AlertDialog? = null

    /** Id of the model whose details are open, or were when the screen went; null if there are none. */
    private var detailed: String? = null

    /** The same for the question before a model is removed. */
    private var questioned: String? = null

    override fun onCreated(saved: Bundle?) {
        installCard = InstallCard(find(R.id.install_card), services.models::cancelImport)
        find<View>(R.id.import_model).setOnClickListener { pick() }
        find<View>(R.id.models_failure_dismiss).setOnClickListener { services.models.dismissFailure() }
        find<View>(R.id.models_failure_log).setOnClickListener { Clipboard.copyLog(context) }
        detailed = saved?.getString(DETAILED)
        questioned = saved?.getString(QUESTIONED)
    }

    override fun onStart() {
        services.models.changes.observe(draw)
        drawAll()
    }

    override fun onStop() {
        services.models.changes.ignore(draw)
        dialog?.dismiss()
        dialog = null
    }

    override fun onSaveState(state: Bundle) {
        state.putString(DETAILED, detailed)
        state.putString(QUESTIONED, questioned)
    }

    override fun onResult(request: Int, result: Int, data: Intent?) {
        val uri = data?.data
        if (request != PICK || result != Activity.RESULT_OK || uri == null) return
        val resolver = context.applicationContext.contentResolver
        services.models.import(nameOf(uri)) {
            resolver.openInputStream(uri) ?: throw FileNotFoundException("no content at the place that was picked")
        }
    }

    private fun pick() {
        // Providers disagree on the type of a .zip file, so that all are offered; what is none is refused when it is read.
        val pick = Intent(Intent.ACTION_OPEN_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE).setType("*/*")
        try {
            activity.startActivityForResult(pick, PICK)
        } catch (error: ActivityNotFoundException) {
            services.log.failure("file picker", error)
            Clipboard.say(context, R.string.no_app)
        }
    }

    /** The name that a person knows the file by. */
    private fun nameOf(uri: Uri): String {
        val named = try {
            context.contentResolver.query(uri, arrayOf(OpenableColumns.DISPLAY_NAME), null, null, null)?.use {
                if (it.moveToFirst()) it.getString(0) else null
            }
        } catch (error: RuntimeException) {
            // The provider is another app: whatever it throws, the file may still open.
            services.log.failure("name of the picked file", error)
            null
        }
        return named ?: uri.lastPathSegment ?: uri.toString()
    }

    private fun drawAll() {
        val store = services.models
        installCard.show(store.installing)
        find<View>(R.id.import_model).isEnabled = store.installing == null
        val failure = store.failure
        find<View>(R.id.models_failure).visibility = if (failure == null) View.GONE else View.VISIBLE
        if (failure != null) {
            val title = if (failure.name.isEmpty()) R.string.error_title else R.string.install_failed
            find<TextView>(R.id.models_failure_title).text = context.getString(title, failure.name)
            find<TextView>(R.id.models_failure_text).text = Sentences.about(context, failure.problem)
        }
        val list = find<LinearLayout>(R.id.models_list)
        list.removeAllViews()
        for (model in store.models) list.addView(card(model, model.id == store.selected?.id, list))
        if (dialog == null) showDialog()
    }

    /** Shows the dialog that was open when the screen went, once its model is known. */
    private fun showDialog() {
        val models = services.models.models
        models.find { it.id == detailed }?.let(::showDetails)
        models.find { it.id == questioned }?.let(::confirmRemoval)
    }

    private fun onClosed() {
        detailed = null
        questioned = null
        dialog = null
    }

    private fun card(model: Model, isSelected: Boolean, list: LinearLayout): View {
        val card = activity.layoutInflater.inflate(R.layout.model_card, list, false)
        val manifest = model.bundle.manifest
        card.findViewById<TextView>(R.id.model_title).text = Sentences.languagePair(context, manifest)
        card.findViewById<TextView>(R.id.model_name).text = manifest.name
        val origin = if (model.archive == null) R.string.model_imported else R.string.model_bundled
        val runtimes = services.engines.runtimesOf(model.bundle).map(Sentences::runtimeName)
        card.findViewById<TextView>(R.id.model_about).text =
            listOf(size(model), context.getString(origin)).joinToString(separator)
        card.findViewById<TextView>(R.id.model_runtimes).text = runtimes.joinToString(separator)
        card.findViewById<View>(R.id.model_in_use).visibility = if (isSelected) View.VISIBLE else View.GONE
        card.findViewById<View>(R.id.model_use).apply {
            visibility = if (isSelected) View.GONE else View.VISIBLE
            setOnClickListener { services.models.select(model) }
        }
        card.findViewById<View>(R.id.model_details).setOnClickListener { showDetails(model) }
        card.findViewById<View>(R.id.model_remove).apply {
            visibility = if (model.archive == null) View.VISIBLE else View.GONE
            setOnClickListener { confirmRemoval(model) }
        }
        return card
    }

    private fun showDetails(model: Model) {
        detailed = model.id
        val details = activity.layoutInflater.inflate(R.layout.model_details, null)
        val lines = details.findViewById<LinearLayout>(R.id.details_lines)
        for ((label, value) in ModelDetails.of(context, model, services.engines.runtimesOf(model.bundle))) {
            val line = activity.layoutInflater.inflate(R.layout.detail_line, lines, false)
            line.findViewById<TextView>(R.id.detail_label).text = label
            line.findViewById<TextView>(R.id.detail_value).text = value
            lines.addView(line)
        }
        val check = details.findViewById<TextView>(R.id.details_check)
        val builder = AlertDialog.Builder(context).setTitle(model.name).setView(details)
            .setPositiveButton(R.string.close) { _, _ -> onClosed() }
            .setNeutralButton(R.string.model_verify, null)
            .setOnCancelListener { onClosed() }
        if (model.archive != null) {
            builder.setNegativeButton(R.string.model_reinstall) { _, _ ->
                onClosed()
                services.models.reinstall(model)
            }
        }
        val shown = builder.show()
        dialog = shown
        // Set afterwards, so that it does not close the dialog.
        shown.getButton(AlertDialog.BUTTON_NEUTRAL).setOnClickListener {
            check.setText(R.string.model_verifying)
            check.visibility = View.VISIBLE
            services.models.verify(model) { problem ->
                check.text = problem?.let { Sentences.about(context, it) } ?: context.getString(R.string.model_sound)
            }
        }
    }

    private fun confirmRemoval(model: Model) {
        questioned = model.id
        dialog = AlertDialog.Builder(context)
            .setTitle(context.getString(R.string.model_remove_question, model.name))
            .setMessage(context.getString(R.string.model_remove_text, model.name, size(model)))
            .setNegativeButton(R.string.cancel) { _, _ -> onClosed() }
            .setPositiveButton(R.string.model_remove) { _, _ ->
                onClosed()
                services.models.remove(model)
            }
            .setOnCancelListener { onClosed() }
            .show()
    }

    private fun size(model: Model): String = Sentences.size(context, model.bundle.sizeBytes)

    private val separator: String get() = context.getString(R.string.separator)

    private companion object {
        const val PICK = 1
        const val DETAILED = "detailed"
        const val QUESTIONED = "questioned"
    }
}
