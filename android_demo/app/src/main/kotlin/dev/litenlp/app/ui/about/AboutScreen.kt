package dev.litenlp.app.ui.about

import android.os.Bundle
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Services
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens

/** Description of the app, its limits, and its components with their authors. */
class AboutScreen : Screen(R.layout.about) {
    override fun onCreated(saved: Bundle?) {
        find<TextView>(R.id.about_version).text = context.getString(R.string.about_version, Services.versionName(context))
        val list = find<ViewGroup>(R.id.about_licenses)
        val licenses = Licenses.of(context)
        if (licenses.isEmpty()) addRow(list).setText(R.string.about_licenses_missing)
        for ((index, license) in licenses.withIndex()) {
            val row = addRow(list)
            row.text = license.title
            row.setOnClickListener {
                activity.show(Screens.LICENSE, Bundle().apply { putInt(LicenseScreen.INDEX, index) })
            }
        }
    }

    private fun addRow(list: ViewGroup): TextView {
        val row = activity.layoutInflater.inflate(R.layout.about_row, list, false) as TextView
        list.addView(row)
        return row
    }
}
