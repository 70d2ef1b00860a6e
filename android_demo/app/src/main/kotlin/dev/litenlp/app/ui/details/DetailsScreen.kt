package dev.litenlp.app.ui.details

import android.os.Bundle
import android.view.ViewGroup
import android.widget.ImageView
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.ui.Place
import dev.litenlp.app.ui.Screen
import dev.litenlp.app.ui.Screens

/** The way to the screens for those who want to know more than a translation. */
class DetailsScreen : Screen(R.layout.details) {
    override fun onCreated(saved: Bundle?) {
        val list = find<ViewGroup>(R.id.details_list)
        for (entry in Screens.all.filter { it.place == Place.DETAILS }) {
            val row = activity.layoutInflater.inflate(R.layout.details_row, list, false)
            row.findViewById<ImageView>(R.id.details_icon).setImageResource(entry.icon)
            row.findViewById<TextView>(R.id.details_title).setText(entry.title)
            entry.about?.let { row.findViewById<TextView>(R.id.details_about).setText(it) }
            row.setOnClickListener { host.show(entry.id) }
            list.addView(row)
        }
    }
}
