package dev.litenlp.app

import android.graphics.Insets
import android.view.View
import android.view.WindowInsets
import android.view.WindowInsets.Type
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.annotation.Config

/** The window reaches behind the system's bars: nothing that is read or tapped may lie there. */
class EdgesTest : AppTest() {
    private fun View.paddings() = listOf(paddingLeft, paddingTop, paddingRight, paddingBottom)

    private fun insets(keyboard: Int = 0): WindowInsets = WindowInsets.Builder()
        .setInsets(Type.statusBars(), Insets.of(0, 60, 0, 0))
        .setInsets(Type.navigationBars(), Insets.of(0, 0, 0, 72))
        .setInsets(Type.displayCutout(), Insets.of(45, 0, 0, 0))
        .setInsets(Type.ime(), Insets.of(0, 0, 0, keyboard))
        .setVisible(Type.ime(), keyboard > 0)
        .build()

    @Test
    fun `keeps clear of bars and cutouts, the bar of the app reaching to the edge`() {
        restart()
        val activity = launch().get()
        val root = activity.findViewById<View>(R.id.root)
        root.dispatchApplyWindowInsets(insets())
        assertEquals(listOf(45, 60, 0, 0), root.paddings())
        assertEquals(listOf(0, 0, 0, 72), activity.findViewById<View>(R.id.navigation_frame).paddings())
    }

    @Test
    fun `makes room for the keyboard, and takes it back`() {
        restart()
        val activity = launch().get()
        val root = activity.findViewById<View>(R.id.root)
        root.dispatchApplyWindowInsets(insets(keyboard = 400))
        assertEquals(listOf(45, 60, 0, 400), root.paddings())
        assertFalse(activity.isShown(R.id.navigation_frame))
        root.dispatchApplyWindowInsets(insets())
        assertEquals(0, root.paddingBottom)
        assertTrue(activity.isShown(R.id.navigation_frame))
    }

    @Test
    @Config(qualifiers = "w740dp-h360dp-land-hdpi")
    fun `keeps the page clear of the bar below where the app's own is at the side`() {
        restart()
        val activity = launch().get()
        activity.findViewById<View>(R.id.root).dispatchApplyWindowInsets(insets())
        assertEquals(72, activity.findViewById<View>(R.id.content).paddingBottom)
        activity.findViewById<View>(R.id.root).dispatchApplyWindowInsets(insets(keyboard = 300))
        assertTrue(activity.isShown(R.id.navigation_frame))
        assertEquals(0, activity.findViewById<View>(R.id.content).paddingBottom)
    }
}
