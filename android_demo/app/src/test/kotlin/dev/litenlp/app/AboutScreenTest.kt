package dev.litenlp.app

import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.EditText
import android.widget.ListView
import android.widget.TextView
import dev.litenlp.app.platform.DeviceInfo
import dev.litenlp.app.platform.ThermalState
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.about.Licenses
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config

class AboutScreenTest : MeasureTest() {
    private val rule = "=".repeat(72)

    private fun titles(activity: MainActivity): List<String> = shownTexts(activity.findViewById<ViewGroup>(R.id.about_licenses))

    @Test
    fun `says its version and what is not known of it`() {
        restart()
        val activity = launch(Screens.ABOUT).get()
        assertEquals("Version ${Services.versionName(app)}", activity.text(R.id.about_version))
        val texts = activity.shown(R.id.content)
        assertTrue("$texts", texts.any { "Nobody has run it on a phone yet" in it })
        assertTrue("$texts", texts.any { "no permission to use the network" in it })
    }

    @Test
    fun `every licence of the build can be read, also after a rotation and the end of the process`() {
        restart()
        val all = Licenses.of(app)
        assertTrue("${all.map { it.title }}", all.map { it.title }.containsAll(listOf("What is in this app", "Apache License, Version 2.0")))
        val controller = launch(Screens.ABOUT)
        assertEquals(all.map { it.title }, titles(controller.get()))
        val index = all.indexOfFirst { it.title == "Apache License, Version 2.0" }
        controller.get().findViewById<ViewGroup>(R.id.about_licenses).getChildAt(index).performClick()
        idle()
        fun lines(activity: MainActivity) =
            activity.findViewById<ListView>(R.id.license_lines).adapter.let { list -> (0 until list.count).map { list.getItem(it) as String } }
        val shown = lines(controller.get())
        assertEquals("Apache License, Version 2.0", shown.first())
        assertTrue(shown.any { "TERMS AND CONDITIONS" in it })
        assertEquals(shown, lines(controller.rotate()))
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart()
        val next = Robolectric.buildActivity(MainActivity::class.java).setup(saved).get()
        assertEquals(shown, lines(next))
        next.goBack()
        assertEquals(Screens.ABOUT, next.shown)
    }

    @Test
    fun `sections are told apart by their rules alone`() {
        val text = "$rule\nOne\n$rule\n\nfirst\nline\n\nsecond\n\n\n$rule\nTwo\n$rule\n\na\n=====\nb\n$rule\nc\n"
        val found = Licenses.parse(text)
        assertEquals(listOf("One" to listOf("first\nline", "second"), "Two" to listOf("a\n=====\nb\n$rule\nc")), found.map { it.title to it.paragraphs })
        assertEquals(0, Licenses.parse("").size)
        assertEquals(0, Licenses.parse("$rule\n$rule").size)
    }

    @Test
    fun `German says the same`() {
        RuntimeEnvironment.setQualifiers("+de")
        restart()
        assertTrue(launch(Screens.ABOUT).get().shown(R.id.content).any { "Auf einem Telefon hat sie noch niemand laufen lassen" in it })
    }

    @Test
    fun `the device is described as the schema wants it`() {
        val device = DeviceInfo.describe(app)
        assertEquals("phone", device.kind)
        assertEquals("Android 15 (API 35)", device.os)
        assertTrue(device.cores >= 1)
        assertTrue("${device.cpuFeatures}", device.cpuFeatures.isNotEmpty() && device.cpuFeatures == device.cpuFeatures.sorted())
    }

    @Test
    fun `thermal states have Android's names`() {
        assertEquals(listOf("none", "light", "moderate", "severe", "critical", "emergency", "shutdown", "status 9"), listOf(0, 1, 2, 3, 4, 5, 6, 9).map(ThermalState::name))
        assertEquals("none", ThermalState.probe(app)!!.status())
    }

    @Test
    @Config(qualifiers = "w360dp-h800dp-hdpi")
    fun picture() {
        restart()
        val activity = launch(Screens.ABOUT).get()
        Screenshots.draw(activity, "about")
        drawDarkGerman(Screens.ABOUT, "about-dark-german")
    }

    @Test
    @Config(fontScale = 2f)
    fun `fonts of twice the size leave nothing out`() {
        restart()
        for (screen in MEASURING) {
            val activity = launch(screen).get()
            idle()
            Screenshots.draw(activity, "check-$screen-large")
            assertNoTextIsCut(activity)
        }
    }

    @Test
    @Config(qualifiers = "ar-ldrtl-w360dp-h740dp-hdpi")
    fun `right to left mirrors`() {
        restart()
        for (screen in MEASURING) Screenshots.draw(launch(screen).get(), "check-$screen-rtl")
        val bar = launch(Screens.BUDGET).get().findViewById<View>(R.id.budget_macs)
        val figure = bar.findViewById<View>(R.id.bar_figure)
        val limit = bar.findViewById<View>(R.id.bar_limit)
        assertTrue("the figure stands to the right of its limit", figure.left > limit.left)
    }

    private fun assertNoTextIsCut(activity: MainActivity) {
        fun check(view: View) {
            if (view.visibility != View.VISIBLE) return
            if (view is TextView && view.layout != null && view !is EditText) {
                val cut = (0 until view.layout.lineCount).any { view.layout.getEllipsisCount(it) > 0 }
                assertTrue("'${view.text}' is cut", !cut && view.layout.height <= view.height + 1)
            }
            if (view is ViewGroup) for (index in 0 until view.childCount) check(view.getChildAt(index))
        }
        check(activity.findViewById(R.id.content))
    }
}
