package dev.litenlp.app.ui.about

import android.os.Bundle
import android.widget.ArrayAdapter
import android.widget.ListView
import dev.litenlp.app.R
import dev.litenlp.app.ui.Screen

/** One text of the licences; a list of its paragraphs, since some have hundreds of pages. */
class LicenseScreen : Screen(R.layout.license) {
    private var index = 0

    override fun onCreated(saved: Bundle?) {
        index = saved?.getInt(INDEX) ?: 0
        val license = Licenses.of(context).getOrNull(index) ?: return
        find<ListView>(R.id.license_lines).adapter =
            ArrayAdapter(context, R.layout.license_line, listOf(license.title) + license.paragraphs)
    }

    override fun onSaveState(state: Bundle) = state.putInt(INDEX, index)

    companion object {
        const val INDEX = "index"
    }
}
