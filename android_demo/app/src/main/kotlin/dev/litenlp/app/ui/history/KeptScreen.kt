package dev.litenlp.app.ui.history

import android.app.AlertDialog
import android.os.Bundle
import android.view.Menu
import android.view.MenuItem
import android.view.View
import android.view.ViewGroup
import android.widget.BaseAdapter
import android.widget.ListView
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.history.TranslationList
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens

/** A list of translations that are kept; a tap takes one back to the translate screen. */
abstract class KeptScreen : Screen(R.layout.history) {
    private val rows = Rows()
    private val draw: () -> Unit = ::drawAll
    private var dialog: AlertDialog? = null

    /** Whether the question before all are deleted is open, or was when the screen went. */
    private var isAsking = false

    /** The translations shown. */
    protected abstract val list: TranslationList

    /** What an empty list says. */
    protected abstract val emptyText: Int

    /** What is asked before all of them are deleted. */
    protected abstract val clearQuestion: Int

    override fun onCreated(saved: Bundle?) {
        val view = find<ListView>(R.id.history_list)
        view.adapter = rows
        view.emptyView = find(R.id.history_empty)
        view.setOnItemClickListener { _, _, position, _ -> open(rows.entries[position]) }
        isAsking = saved?.getBoolean(ASKING) == true
    }

    override fun onStart() {
        list.changes.observe(draw)
        list.load()
        drawAll()
        if (isAsking) confirmClear()
    }

    override fun onStop() {
        list.changes.ignore(draw)
        dialog?.dismiss()
    }

    override fun onSaveState(state: Bundle) = state.putBoolean(ASKING, isAsking)

    override fun onCreateActions(menu: Menu) {
        menu.add(Menu.NONE, R.id.action_clear_history, Menu.NONE, R.string.history_clear)
            .setIcon(R.drawable.ic_delete)
            .setShowAsAction(MenuItem.SHOW_AS_ACTION_IF_ROOM)
    }

    override fun onAction(id: Int): Boolean {
        if (id != R.id.action_clear_history) return false
        if (list.entries.isNotEmpty()) confirmClear()
        return true
    }

    private fun drawAll() {
        rows.entries = list.entries
        rows.notifyDataSetChanged()
        find<TextView>(R.id.history_empty).setText(emptyText)
    }

    private fun open(entry: KeptTranslation) {
        host.reopen(entry)
        host.show(Screens.TRANSLATE)
    }

    private fun confirmClear() {
        isAsking = true
        dialog = AlertDialog.Builder(context)
            .setTitle(clearQuestion)
            .setMessage(R.string.history_clear_text)
            .setNegativeButton(R.string.cancel) { _, _ -> isAsking = false }
            .setPositiveButton(R.string.history_clear) { _, _ ->
                isAsking = false
                list.clear()
            }
            .setOnCancelListener { isAsking = false }
            .show()
    }

    private inner class Rows : BaseAdapter() {
        var entries: List<KeptTranslation> = emptyList()

        override fun getCount(): Int = entries.size
        override fun getItem(position: Int): KeptTranslation = entries[position]
        override fun getItemId(position: Int): Long = position.toLong()

        override fun getView(position: Int, old: View?, parent: ViewGroup): View {
            val row = old ?: activity.layoutInflater.inflate(R.layout.history_row, parent, false)
            val entry = entries[position]
            HistoryRow(row).show(entry, onDelete = { list.remove(entry) })
            return row
        }
    }

    private companion object {
        const val ASKING = "asking"
    }
}

/** The last translations. */
class HistoryScreen : KeptScreen() {
    override val list: TranslationList get() = services.history
    override val emptyText: Int get() = if (services.preferences.keepsHistory) R.string.history_empty else R.string.history_off
    override val clearQuestion: Int get() = R.string.history_clear_question
}

/** The translations that a person marked. */
class FavouritesScreen : KeptScreen() {
    override val list: TranslationList get() = services.favourites
    override val emptyText: Int get() = R.string.favourites_empty
    override val clearQuestion: Int get() = R.string.favourites_clear_question
}
