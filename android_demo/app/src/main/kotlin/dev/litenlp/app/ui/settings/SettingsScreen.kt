package dev.litenlp.app.ui.settings

import android.os.Bundle
import android.view.View
import android.widget.RadioButton
import android.widget.RadioGroup
import android.widget.SeekBar
import android.widget.Switch
import android.widget.TextView
import dev.litenlp.app.Preferences
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.translate.TranslateScreen

/** The settings; a change applies from the next translation on. */
class SettingsScreen : Screen(R.layout.settings) {
    override fun onCreated(saved: Bundle?) {
        val preferences = services.preferences
        showSwitch(R.id.settings_typing, preferences.translatesWhileTyping) { preferences.translatesWhileTyping = it }
        find<TextView>(R.id.settings_typing_text).text =
            context.getString(R.string.settings_typing_text, Sentences.count(context, TranslateScreen.MOST_TYPED))
        showSwitch(R.id.settings_figures, preferences.showsFigures) { preferences.showsFigures = it }
        showSwitch(R.id.settings_keep_history, preferences.keepsHistory) { preferences.keepsHistory = it }
        showRuntimes()
        showThreads()
        showSearch()
    }

    private fun showSwitch(id: Int, isOn: Boolean, onChanged: (Boolean) -> Unit) {
        val switch = find<Switch>(id)
        switch.isChecked = isOn
        switch.setOnCheckedChangeListener { _, isChecked -> onChanged(isChecked) }
    }

    private fun showRuntimes() {
        val choices = listOf<String?>(null) + services.engines.runtimes
        val names = choices.map { it?.let(Sentences::runtimeName) ?: context.getString(R.string.settings_runtime_automatic) }
        fill(R.id.settings_runtimes, names, choices.indexOf(services.preferences.runtime)) {
            services.preferences.runtime = choices[it]
            // Whoever chooses a runtime wants it tried, whatever it did before.
            services.engines.forgetFailures()
        }
    }

    private fun showSearch() {
        val choices = Preferences.BEAM_CHOICES
        val names = choices.map {
            if (it == 1) {
                context.getString(R.string.settings_search_greedy)
            } else {
                context.getString(R.string.settings_search_beam, Sentences.count(context, it))
            }
        }
        fill(R.id.settings_searches, names, choices.indexOf(services.preferences.beamSize)) {
            services.preferences.beamSize = choices[it]
        }
    }

    private fun showThreads() {
        val choices = services.preferences.threadChoices
        val label = find<TextView>(R.id.settings_threads_label)
        val bar = find<SeekBar>(R.id.settings_threads)
        fun show(threads: Int) {
            val text = resources.getQuantityString(R.plurals.threads, threads, Sentences.count(context, threads))
            label.text = text
            // Said by TalkBack in place of a percentage, where the system can.
            bar.contentDescription = text
        }
        bar.max = choices.last - choices.first
        bar.progress = services.preferences.threads - choices.first
        bar.isEnabled = bar.max > 0
        show(services.preferences.threads)
        bar.setOnSeekBarChangeListener(object : SeekBar.OnSeekBarChangeListener {
            override fun onProgressChanged(seekBar: SeekBar, progress: Int, byPerson: Boolean) {
                val threads = choices.first + progress
                show(threads)
                if (byPerson) services.preferences.threads = threads
            }

            override fun onStartTrackingTouch(seekBar: SeekBar) = Unit
            override fun onStopTrackingTouch(seekBar: SeekBar) = Unit
        })
    }

    private fun fill(group: Int, names: List<String>, chosen: Int, onChosen: (Int) -> Unit) {
        val radios = find<RadioGroup>(group)
        for ((index, name) in names.withIndex()) {
            val radio = activity.layoutInflater.inflate(R.layout.settings_choice, radios, false) as RadioButton
            radio.id = View.generateViewId()
            radio.text = name
            radio.setOnClickListener { onChosen(index) }
            radios.addView(radio)
        }
        radios.check(radios.getChildAt(chosen.coerceAtLeast(0)).id)
    }
}
