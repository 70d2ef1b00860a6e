package dev.litenlp.app.ui

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.view.accessibility.AccessibilityNodeInfo
import android.widget.ImageView
import android.widget.TextView
import dev.litenlp.app.R

/**
 * The bar (or on wide windows the rail) with the main screens.
 *
 * Labels grow with the font size up to what five of them in a row have place for; beyond, icons alone remain, each with its
 * name for TalkBack and as a tooltip.
 *
 * @param container gets one view per entry
 */
class NavigationBar(private val container: ViewGroup, entries: List<ScreenEntry>, onChosen: (ScreenEntry) -> Unit) {
    private val items = LinkedHashMap<String, View>()

    init {
        for (entry in entries) {
            val item = LayoutInflater.from(container.context).inflate(R.layout.navigation_item, container, false)
            val title = container.context.getString(entry.title)
            item.findViewById<ImageView>(R.id.navigation_icon).setImageResource(entry.icon)
            label(item).text = title
            item.contentDescription = title
            item.tooltipText = title
            item.accessibilityDelegate = TabDelegate
            item.setOnClickListener { onChosen(entry) }
            container.addView(item)
            items[entry.id] = item
        }
        container.addOnLayoutChangeListener { _, left, _, right, _, _, _, _, _ -> fitLabels(right - left) }
    }

    /** Hides all labels where one of them has no place; a bar with some would look as if it meant something. */
    private fun fitLabels(width: Int) {
        val room = width - container.paddingLeft - container.paddingRight
        val isRail = container.resources.getBoolean(R.bool.navigation_is_rail)
        val each = if (isRail) room else room / items.size.coerceAtLeast(1)
        val labels = items.values.map(::label)
        val fit = labels.all { it.paint.measureText(it.text.toString()) <= each }
        val visibility = if (fit) View.VISIBLE else View.GONE
        if (labels.all { it.visibility == visibility }) return
        // Not from within a layout, which would not see it.
        container.post { for (label in labels) label.visibility = visibility }
    }

    private fun label(item: View): TextView = item.findViewById(R.id.navigation_label)

    /** Marks where the person is; an id that is not in the bar marks nothing. */
    fun mark(id: String) {
        for ((name, item) in items) item.isSelected = name == id
    }

    /** The view of an entry. */
    fun item(id: String): View? = items[id]

    private object TabDelegate : View.AccessibilityDelegate() {
        override fun onInitializeAccessibilityNodeInfo(host: View, info: AccessibilityNodeInfo) {
            super.onInitializeAccessibilityNodeInfo(host, info)
            info.className = "android.widget.Button"
        }
    }
}
