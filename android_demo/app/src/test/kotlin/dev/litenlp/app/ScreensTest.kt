package dev.litenlp.app

import android.graphics.Rect
import android.os.Looper
import android.view.View
import android.view.ViewGroup
import android.widget.AdapterView
import android.widget.EditText
import android.widget.ImageButton
import android.widget.ImageView
import android.widget.SeekBar
import android.widget.TextView
import android.widget.Toolbar
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Place
import dev.litenlp.app.ui.ScreenEntry
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import java.io.ByteArrayInputStream

/** Every screen, whoever wrote it: in both languages and themes, with large fonts, from right to left, on its side. */
class ScreensTest : AppTest() {
    /** A screen with something on it, laid out. */
    private fun show(entry: ScreenEntry, qualifiers: String, fontScale: Float = 1f): MainActivity {
        RuntimeEnvironment.setQualifiers(qualifiers)
        RuntimeEnvironment.setFontScale(fontScale)
        restart()
        services.favourites.add(KeptTranslation(1_790_000_000_000, "Thank you!", "Danke!", "en" to "de", "onnx", 84.0))
        services.history.add(KeptTranslation(1_790_000_000_000, "Good morning!", "Guten Morgen!", "en" to "de", "onnx", 84.0))
        services.translate.edit("Where is the nearest train station?")
        val activity = launch().get()
        if (entry.id == Screens.TRANSLATE) {
            activity.click(R.id.translate)
            await("translation") { services.translate.job?.outcome != null }
        } else {
            activity.show(entry.id)
        }
        if (entry.id == Screens.MODELS) {
            // With a second model, all buttons are there; with a failure, its card.
            services.models.import("holiday.zip") { ByteArrayInputStream(TestBundles.zip(name = "holiday-en-de")) }
            await("import") { services.models.models.size == 2 }
            services.models.import("notes.pdf") { ByteArrayInputStream(ByteArray(100)) }
            await("failure") { services.models.failure != null }
        }
        await("files read") { services.files.isIdle && services.installs.isIdle && services.inference.isIdle }
        shadowOf(Looper.getMainLooper()).idle()
        return activity
    }

    private fun views(view: View): List<View> =
        if (view is ViewGroup) listOf(view) + (0 until view.childCount).flatMap { views(view.getChildAt(it)) } else listOf(view)

    private fun shownViews(activity: MainActivity) = views(activity.findViewById(R.id.root)).filter { it.isShown }

    private fun nameOf(view: View): String =
        if (view.id == View.NO_ID) view.toString() else runCatching { view.resources.getResourceEntryName(view.id) }.getOrDefault("$view")

    private fun spokenText(view: View): String = when {
        !view.contentDescription.isNullOrEmpty() -> view.contentDescription.toString()
        view is EditText -> view.text.toString() + (view.hint ?: "")
        view is TextView -> view.text.toString()
        view is ViewGroup -> (0 until view.childCount).joinToString("") { spokenText(view.getChildAt(it)) }
        else -> ""
    }

    /** Accessibility faults for TalkBack, touch and large fonts. */
    private fun complaints(activity: MainActivity): List<String> {
        val least = 48 * activity.resources.displayMetrics.density - 1
        val found = ArrayList<String>()
        for (view in shownViews(activity)) {
            // A list is used by its rows.
            val canBeUsed = (view.isClickable && view !is AdapterView<*>) || view is SeekBar
            if (canBeUsed && view.isImportantForAccessibility && spokenText(view).isEmpty()) found += "${nameOf(view)} has no label"
            val isText = view is EditText || (view as? TextView)?.isTextSelectable == true
            if (canBeUsed && !isText && (view.height < least || view.width < least)) {
                found += "${nameOf(view)} is ${view.width} x ${view.height} pixels, less than $least"
            }
            if (view is ImageView && view !is ImageButton && view.contentDescription == null &&
                view.importantForAccessibility != View.IMPORTANT_FOR_ACCESSIBILITY_NO && (view.parent as View).contentDescription == null
            ) {
                found += "${nameOf(view)} is a picture without a text"
            }
            if (view is TextView) found += clipping(view)
        }
        return found
    }

    private fun clipping(view: TextView): List<String> {
        val layout = view.layout ?: return emptyList()
        val room = view.height - view.totalPaddingTop - view.totalPaddingBottom
        val scrolls = view is EditText
        val found = ArrayList<String>()
        // Rows of the history show a beginning on purpose.
        val mayEnd = view.id == R.id.row_source || view.id == R.id.row_target
        if (!scrolls && !mayEnd && layout.height > room + 1) found += "${nameOf(view)} needs ${layout.height} pixels of height, has $room"
        if (!mayEnd && (0 until layout.lineCount).any { layout.getEllipsisCount(it) > 0 }) found += "${nameOf(view)} is cut: ${view.text}"
        val width = view.width - view.totalPaddingLeft - view.totalPaddingRight
        val widest = (0 until layout.lineCount).maxOfOrNull { layout.getLineMax(it) } ?: 0f
        if (!scrolls && widest > width + 1) found += "${nameOf(view)} is $widest pixels wide, has $width: ${view.text}"
        return found
    }

    private fun checkAll(qualifiers: String, fontScale: Float, suffix: String) {
        val found = ArrayList<String>()
        for (entry in Screens.all) {
            val activity = show(entry, qualifiers, fontScale)
            Screenshots.draw(activity, "all/${entry.id}-$suffix")
            found += complaints(activity).map { "${entry.id}: $it" }
        }
        assertEquals("", found.joinToString("\n"))
    }

    @Test
    fun `light and in English`() = checkAll("en-w360dp-h740dp-port-notnight-hdpi", 1f, "en")

    @Test
    fun `dark and in German`() = checkAll("de-w360dp-h740dp-port-night-hdpi", 1f, "de-night")

    @Test
    fun `light and in German with the largest font`() = checkAll("de-w360dp-h740dp-port-notnight-hdpi", 2f, "de-large")

    @Test
    fun `dark and in English, on its side`() = checkAll("en-w740dp-h360dp-land-night-hdpi", 1f, "en-land-night")

    @Test
    fun `on a small phone`() = checkAll("de-w320dp-h480dp-port-notnight-mdpi", 1.3f, "de-small")

    @Test
    fun `from right to left`() {
        checkAll("ar-ldrtl-w360dp-h740dp-port-notnight-hdpi", 1f, "ar")
        val activity = show(Screens.entry(Screens.TRANSLATE), "ar-ldrtl-w360dp-h740dp-port-notnight-hdpi")
        assertEquals(View.LAYOUT_DIRECTION_RTL, activity.findViewById<View>(R.id.root).layoutDirection)
        val place = Rect()
        activity.findViewById<View>(R.id.clear).getGlobalVisibleRect(place)
        assertTrue("expected the button at the left, found $place", place.centerX() < 100)
        // What is typed has its own direction.
        assertEquals(View.TEXT_ALIGNMENT_VIEW_START, activity.findViewById<View>(R.id.input).textAlignment)
    }

    @Test
    fun `the bar marks the screen, and each of its screens can be reached`() {
        restart()
        val activity = launch().get()
        val items = activity.findViewById<ViewGroup>(R.id.navigation)
        val entries = Screens.all.filter { it.place == Place.NAVIGATION }
        assertEquals(entries.size, items.childCount)
        for ((index, entry) in entries.withIndex()) {
            items.getChildAt(index).performClick()
            idle()
            assertEquals(entry.id, activity.shown)
            assertEquals(activity.getString(entry.title), activity.title)
            assertEquals(index, (0 until items.childCount).single { items.getChildAt(it).isSelected })
        }
    }

    @Test
    fun `the bar has what a person translates with, and Details leads to the rest`() {
        restart()
        val activity = launch().get()
        assertEquals(listOf("translate", "models"), Screens.all.filter { it.place == Place.NAVIGATION }.map { it.id })
        val toolbar = activity.findViewById<Toolbar>(R.id.toolbar)
        val titles = (0 until toolbar.menu.size()).map { toolbar.menu.getItem(it).title.toString() }
        assertEquals(listOf("Favourites", "History", "Details", "Settings", "About"), titles)
        for ((index, id) in listOf("budget", "compare", "benchmark", "log").withIndex()) {
            toolbar.menu.performIdentifierAction(toolbar.menu.getItem(titles.indexOf("Details")).itemId, 0)
            assertEquals("details", activity.shown)
            activity.findViewById<ViewGroup>(R.id.details_list).getChildAt(index).performClick()
            idle()
            assertEquals(id, activity.shown)
            activity.goBack()
            assertEquals("details", activity.shown)
            activity.goBack()
            assertEquals("translate", activity.shown)
        }
    }
}
