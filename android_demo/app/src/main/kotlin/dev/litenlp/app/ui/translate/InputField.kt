package dev.litenlp.app.ui.translate

import android.annotation.SuppressLint
import android.text.Editable
import android.text.InputFilter
import android.text.Spanned
import android.text.TextWatcher
import android.view.MotionEvent
import android.widget.EditText
import dev.litenlp.app.ui.IncomingText

/**
 * The text field: bounds its text, and scrolls by itself within a page that scrolls.
 *
 * @param onChanged told every new text
 * @param onCut told that some of what came did not fit
 */
class InputField(val view: EditText, private val onChanged: (String) -> Unit, private val onCut: () -> Unit) {
    private val watcher = object : TextWatcher {
        override fun beforeTextChanged(text: CharSequence, start: Int, count: Int, after: Int) = Unit
        override fun onTextChanged(text: CharSequence, start: Int, before: Int, count: Int) = Unit
        override fun afterTextChanged(text: Editable) = onChanged(text.toString())
    }

    init {
        view.filters = arrayOf(Bound())
        view.addTextChangedListener(watcher)
        keepScrolling()
    }

    /** Puts a text in, with the cursor at its end, unless it is there already. */
    fun show(text: String) {
        if (view.text.contentEquals(text)) return
        view.setText(text)
        view.setSelection(view.text.length)
    }

    /** While the field has more lines than it shows, a finger on it moves them and not the page. */
    @SuppressLint("ClickableViewAccessibility")
    private fun keepScrolling() = view.setOnTouchListener { field, event ->
        if (field.canScrollVertically(1) || field.canScrollVertically(-1)) {
            val isHeld = event.actionMasked != MotionEvent.ACTION_UP && event.actionMasked != MotionEvent.ACTION_CANCEL
            field.parent?.requestDisallowInterceptTouchEvent(isHeld)
        }
        false
    }

    private inner class Bound : InputFilter {
        override fun filter(source: CharSequence, start: Int, end: Int, dest: Spanned, from: Int, to: Int): CharSequence? {
            val room = IncomingText.MAX_CHARS - (dest.length - (to - from))
            if (end - start <= room) return null
            onCut()
            if (room <= 0) return ""
            val last = start + room
            // Half a character would be no text any more.
            return source.subSequence(start, if (source[last - 1].isHighSurrogate()) last - 1 else last)
        }
    }
}
