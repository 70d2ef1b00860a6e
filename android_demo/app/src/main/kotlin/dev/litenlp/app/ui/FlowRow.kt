package dev.litenlp.app.ui

import android.content.Context
import android.util.AttributeSet
import android.view.View
import android.view.ViewGroup

/** Children in a row, and in further rows where they have no place: buttons with large fonts. Rows begin where reading does. */
class FlowRow(context: Context, attributes: AttributeSet?) : ViewGroup(context, attributes) {
    override fun onMeasure(widthSpec: Int, heightSpec: Int) {
        val isBound = MeasureSpec.getMode(widthSpec) != MeasureSpec.UNSPECIFIED
        val room = if (isBound) MeasureSpec.getSize(widthSpec) - paddingLeft - paddingRight else Int.MAX_VALUE / 2
        val childWidth = MeasureSpec.makeMeasureSpec(room, MeasureSpec.AT_MOST)
        val childHeight = MeasureSpec.makeMeasureSpec(0, MeasureSpec.UNSPECIFIED)
        for (child in shownChildren()) child.measure(childWidth, childHeight)
        val rows = rows(room)
        val width = rows.maxOfOrNull(::widthOf) ?: 0
        val height = rows.sumOf(::heightOf)
        setMeasuredDimension(
            resolveSize(width + paddingLeft + paddingRight, widthSpec),
            resolveSize(height + paddingTop + paddingBottom, heightSpec),
        )
    }

    override fun onLayout(changed: Boolean, left: Int, top: Int, right: Int, bottom: Int) {
        val width = right - left
        var y = paddingTop
        for (row in rows(width - paddingLeft - paddingRight)) {
            var x = paddingLeft
            val height = heightOf(row)
            for (child in row) {
                val place = if (layoutDirection == View.LAYOUT_DIRECTION_RTL) width - x - child.measuredWidth else x
                val down = y + (height - child.measuredHeight) / 2
                child.layout(place, down, place + child.measuredWidth, down + child.measuredHeight)
                x += child.measuredWidth
            }
            y += height
        }
    }

    private fun shownChildren(): List<View> = (0 until childCount).map(::getChildAt).filter { it.visibility != View.GONE }

    private fun rows(room: Int): List<List<View>> {
        val rows = ArrayList<ArrayList<View>>()
        for (child in shownChildren()) {
            val last = rows.lastOrNull()
            if (last == null || widthOf(last) + child.measuredWidth > room) rows += arrayListOf(child) else last += child
        }
        return rows
    }

    private fun widthOf(row: List<View>): Int = row.sumOf { it.measuredWidth }

    private fun heightOf(row: List<View>): Int = row.maxOf { it.measuredHeight }
}
