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
import dev.litenlp.app.history.HistoryEntry
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens

/** All translations that are kept; a tap takes one back to the translate screen. */
class HistoryScreen : Screen(R.layout.history) {
    private val rows = Rows()
    private val draw: () -> Unit = ::drawAll

    override fun onCreated(saved: Bundle?) {
        val list = find<ListView>(R.id.history_list)
        list.adapter = rows
        list.emptyView = find(R.id.history_empty)
        list.setOnItemClickListener { _, _, position, _ -> open(rows.entries[position]) }
    }

    override fun onStart() {
        services.history.changes.observe(draw)
        services.history.load()
        drawAll()
    }

    override fun onStop() = services.history.changes.ignore(draw)

    override fun onCreateActions(menu: Menu) {
        menu.add(Menu.NONE, R.id.action_clear_history, Menu.NONE, R.string.history_clear)
            .setIcon(R.drawable.ic_delete)
            .setShowAsAction(MenuItem.SHOW_AS_ACTION_IF_ROOM)
    }

    override fun onAction(id: Int): Boolean {
        if (id != R.id.action_clear_history) return false
        if (services.history.entries.isNotEmpty()) confirmClear()
        return true
    }

    private fun drawAll() {
        rows.entries = services.history.entries
        rows.notifyDataSetChanged()
        val keeps = services.preferences.keepsHistory
        find<TextView>(R.id.history_empty).setText(if (keeps) R.string.history_empty else R.string.history_off)
    }

    private fun open(entry: HistoryEntry) {
        services.translate.replace(entry.source, TranslateSession.Reason.FROM_HISTORY, entry.target)
        host.show(Screens.TRANSLATE)
    }

    private fun confirmClear() {
        AlertDialog.Builder(context)
            .setTitle(R.string.history_clear_question)
            .setMessage(R.string.history_clear_text)
            .setNegativeButton(R.string.cancel, null)
            .setPositiveButton(R.string.history_clear) { _, _ -> services.history.clear() }
            .show()
    }

    private inner class Rows : BaseAdapter() {
        var entries: List<HistoryEntry> = emptyList()

        override fun getCount(): Int = entries.size
        override fun getItem(position: Int): HistoryEntry = entries[position]
        override fun getItemId(position: Int): Long = position.toLong()

        override fun getView(position: Int, old: View?, parent: ViewGroup): View {
            val row = old ?: activity.layoutInflater.inflate(R.layout.history_row, parent, false)
            val entry = entries[position]
            HistoryRow(row).show(entry, onDelete = { services.history.remove(entry) })
            return row
        }
    }
}
