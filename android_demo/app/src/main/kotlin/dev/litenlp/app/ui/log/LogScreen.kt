package dev.litenlp.app.ui.log

import android.os.Bundle
import android.view.Menu
import android.view.MenuItem
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.Screen

/** The event log, to read and to hand over. */
class LogScreen : Screen(R.layout.log) {
    override fun onCreated(saved: Bundle?) = Unit

    override fun onStart() {
        find<TextView>(R.id.log_lines).text = services.report()
    }

    override fun onCreateActions(menu: Menu) {
        menu.add(Menu.NONE, R.id.action_copy_log, Menu.NONE, R.string.copy_log)
            .setIcon(R.drawable.ic_copy)
            .setShowAsAction(MenuItem.SHOW_AS_ACTION_IF_ROOM)
        menu.add(Menu.NONE, R.id.action_share_log, Menu.NONE, R.string.log_share)
            .setIcon(R.drawable.ic_share)
            .setShowAsAction(MenuItem.SHOW_AS_ACTION_IF_ROOM)
    }

    override fun onAction(id: Int): Boolean {
        when (id) {
            R.id.action_copy_log -> Clipboard.copyLog(context)
            R.id.action_share_log -> Clipboard.share(activity, services.report())
            else -> return false
        }
        return true
    }
}
