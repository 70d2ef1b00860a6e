package dev.litenlp.app

import android.app.AlertDialog
import android.content.ComponentName
import android.content.Intent
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Rect
import android.view.View
import android.view.ViewGroup
import android.widget.EditText
import android.widget.ImageView
import android.widget.ScrollView
import dev.litenlp.app.models.AssetArchives
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.SelectionActivity
import dev.litenlp.desktop.DesktopEngineFactory
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Assume.assumeNotNull
import org.junit.Assume.assumeTrue
import org.junit.Before
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowAlertDialog

/**
 * Pictures of the docs: the shipped models translate on a desktop's ONNX Runtime, so that what they show was computed.
 *
 * The tool `pictures` draws all of them; a plain run of the tests only the first one. What the screens do is tested elsewhere.
 */
@Config(qualifiers = "w360dp-h740dp-hdpi")
class PicturesTest : MeasureTest() {
    @Before
    fun begin() {
        assumeNotNull(System.getProperty("litenlp.bundle"))
        val archives = AssetArchives(app.assets)
        val models = archives.names().associateWith { { archives.open(it) } }
        restart(listOf(DesktopEngineFactory), models, typing = null, figures = null)
        await("all models") { services.models.models.size == models.size && !services.models.isPreparing }
    }

    private fun MainActivity.translate(text: String) {
        findViewById<EditText>(R.id.input).setText(text)
        await("translation of $text") { services.translate.job.let { it != null && it.text == text && it.outcome != null } }
    }

    /** Translates texts of everyday, the last of which stays. */
    private fun MainActivity.translateAll(isMarked: Boolean = false) {
        for (text in listOf("The children are playing in the garden.", "I would like a cup of coffee, please.")) {
            translate(text)
            services.translate.settle()
            if (isMarked) click(R.id.favourite)
        }
        translate(QUESTION)
        await("history") { services.history.entries.size == 2 && services.files.isIdle }
    }

    private fun draw(activity: MainActivity, name: String) {
        idle()
        check(Screenshots.draw(activity, "docs/$name"), name)
    }

    /** Pictures of what other tests cover, with an engine that takes its time. */
    private fun onlyForDocs() = assumeTrue(System.getProperty("litenlp.pictures") == "true")

    private fun MainActivity.scrollTo(id: Int) {
        idle()
        val target = findViewById<View>(id)
        var above: View = target
        while (above !is ScrollView) above = above.parent as View
        val place = Rect()
        target.getDrawingRect(place)
        above.offsetDescendantRectToMyCoords(target, place)
        above.scrollTo(0, place.top)
    }

    private fun check(picture: Bitmap, name: String) {
        val colors = HashSet<Int>()
        for (y in 0 until picture.height step 2) for (x in 0 until picture.width step 2) colors += picture.getPixel(x, y)
        assertTrue("$name: expected text and surfaces, found ${colors.size} colours", colors.size > 20)
    }

    @Test
    fun `translate, with a favourite`() {
        val activity = launch().get()
        activity.translateAll(isMarked = true)
        assertEquals("Wo ist der nächste Bahnhof?", activity.text(R.id.output))
        activity.click(R.id.favourite)
        draw(activity, "translate")
        services.preferences.showsFigures = true
        activity.show(Screens.FAVOURITES)
        draw(activity, "favourites")
        activity.show(Screens.TRANSLATE)
        await("tokens") { activity.text(R.id.count).contains("token") }
        draw(activity, "figures")
    }

    @Test
    fun `translate, dark and in German`() {
        onlyForDocs()
        RuntimeEnvironment.setQualifiers("+de-night")
        val activity = launch().get()
        activity.translateAll()
        draw(activity, "translate-dark-german")
    }

    @Test
    fun `translate on its side`() {
        onlyForDocs()
        RuntimeEnvironment.setQualifiers("+land")
        val activity = launch().get()
        activity.translateAll()
        draw(activity, "translate-land")
    }

    @Test
    fun `choice of languages`() {
        onlyForDocs()
        val activity = launch().get()
        activity.translateAll()
        activity.click(R.id.target_language)
        val dialog = (ShadowAlertDialog.getLatestDialog() as AlertDialog).window!!.decorView
        val picture = Screenshots.draw(activity, "all/behind-the-choice")
        Canvas(picture).apply {
            drawColor(Color.argb(SCRIM, 0, 0, 0))
            translate((picture.width - dialog.width) / 2f, (picture.height - dialog.height) / 2f)
            dialog.draw(this)
        }
        Screenshots.write(picture, "docs/languages")
        check(picture, "languages")
    }

    @Test
    fun `details, budget and benchmark of a real run`() {
        onlyForDocs()
        val activity = launch().get()
        activity.translateAll()
        activity.show(Screens.DETAILS)
        draw(activity, "details")
        activity.show(Screens.BUDGET)
        draw(activity, "budget")
        activity.show(Screens.BENCHMARK)
        // More threads than a computer has cores would show how slow that is.
        activity.findViewById<ViewGroup>(R.id.benchmark_threads).let { it.getChildAt(it.childCount - 1).performClick() }
        activity.click(R.id.benchmark_start)
        await("benchmark") { services.measurements.benchmark?.ending != null }
        activity.scrollTo(R.id.benchmark_about)
        draw(activity, "benchmark")
    }

    @Test
    fun `models, settings and about`() {
        onlyForDocs()
        val activity = launch(Screens.MODELS).get()
        draw(activity, "models")
        services.models.import("half.zip") { TestBundles.zip(name = "x").let { it.copyOf(it.size / 2) }.inputStream() }
        await("failure") { services.models.failure != null }
        draw(activity, "models-refused")
        activity.show(Screens.SETTINGS)
        draw(activity, "settings")
        activity.show(Screens.ABOUT)
        draw(activity, "about")
    }

    @Test
    fun `a selection in another app`() {
        onlyForDocs()
        val intent = Intent(Intent.ACTION_PROCESS_TEXT).setType("text/plain")
            .putExtra(Intent.EXTRA_PROCESS_TEXT, "The children are playing in the garden.")
        val controller = Robolectric.buildActivity(SelectionActivity::class.java, intent)
        shadowOf(controller.get()).setCallingActivity(ComponentName("org.example.notes", "org.example.notes.Editor"))
        val activity = controller.setup().visible().get()
        await("translation") { activity.isShown(R.id.selection_copy) }
        assertEquals("Die Kinder spielen im Garten.", activity.text(R.id.selection_output))
        check(Screenshots.draw(activity.window.decorView, "docs/selection"), "selection")
    }

    @Test
    fun `the icon`() {
        onlyForDocs()
        val view = ImageView(app).apply { setImageResource(R.mipmap.ic_launcher) }
        val exactly = View.MeasureSpec.makeMeasureSpec(ICON, View.MeasureSpec.EXACTLY)
        view.measure(exactly, exactly)
        view.layout(0, 0, ICON, ICON)
        check(Screenshots.draw(view, "icon"), "icon")
    }

    private companion object {
        const val QUESTION = "Where is the nearest train station?"
        const val ICON = 288
        const val SCRIM = 0x80
    }
}
