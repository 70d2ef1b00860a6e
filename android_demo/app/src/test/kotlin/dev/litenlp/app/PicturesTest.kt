package dev.litenlp.app

import android.app.AlertDialog
import android.content.ComponentName
import android.content.Intent
import android.view.View
import android.widget.EditText
import android.widget.ImageView
import android.widget.LinearLayout
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.ui.Screens
import dev.litenlp.app.ui.SelectionActivity
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowAlertDialog
import java.io.File

/** Pictures of the first screens for the docs; what they show is tested elsewhere, here only that it is not blank. */
@Config(qualifiers = "w360dp-h800dp-hdpi")
class PicturesTest : MeasureTest() {
    private fun prepare() {
        // The shipped model, where the build gives it: its size is one of the figures shown.
        val shipped = System.getProperty("litenlp.bundle")?.let(::File)
        val archive = { shipped?.inputStream() ?: TestBundles.zip().inputStream() }
        restart(listOf(Unhurried(onnx, 4), Unhurried(executorch, 5)), mapOf("tatoeba-en-de.zip" to archive))
        val known = KNOWN.entries.drop(1).take(2)
        for ((index, pair) in known.withIndex()) {
            val time = 1_790_000_000_000 + index * 600_000
            services.history.add(KeptTranslation(time, pair.key, pair.value, "en" to "de", "onnx", 40.0))
        }
    }

    private fun translate(name: String) {
        prepare()
        val activity = launch().get()
        activity.findViewById<EditText>(R.id.input).setText("Where is the nearest train station?")
        activity.click(R.id.translate)
        await("translation") { services.translate.job?.outcome != null }
        await("tokens") { activity.text(R.id.count).contains("·") }
        draw(activity.window.decorView, name)
    }

    private fun draw(view: View, name: String) {
        val picture = Screenshots.draw(view, name)
        val colors = HashSet<Int>()
        for (y in 0 until picture.height step 2) for (x in 0 until picture.width step 2) colors += picture.getPixel(x, y)
        assertTrue("$name: expected text and surfaces, found ${colors.size} colours", colors.size > 20)
    }

    @Test
    fun translate() = translate("translate")

    @Test
    fun `translate, dark and in German`() {
        RuntimeEnvironment.setQualifiers("+de-night")
        translate("translate-dark-german")
    }

    @Test
    fun `translate on its side`() {
        RuntimeEnvironment.setQualifiers("+land")
        translate("translate-land")
    }

    @Test
    fun models() {
        prepare()
        services.models.import("holiday.zip") { TestBundles.zip(name = "holiday-en-de").inputStream() }
        await("import") { services.models.models.size == 2 }
        services.models.select(services.models.models.first())
        val activity = launch(Screens.MODELS).get()
        draw(activity.window.decorView, "models")
        services.models.import("half.zip") { TestBundles.zip(name = "x").let { it.copyOf(it.size / 2) }.inputStream() }
        await("failure") { services.models.failure != null }
        idle()
        draw(activity.window.decorView, "models-refused")
        val cards = activity.findViewById<LinearLayout>(R.id.models_list)
        cards.getChildAt(0).findViewById<View>(R.id.model_details).performClick()
        val dialog = ShadowAlertDialog.getLatestDialog() as AlertDialog
        idle()
        draw(checkNotNull(dialog.window).decorView, "model-details")
    }

    @Test
    fun `a selection in another app`() {
        restart(listOf(Unhurried(onnx, 4)))
        val intent = Intent(Intent.ACTION_PROCESS_TEXT).setType("text/plain")
            .putExtra(Intent.EXTRA_PROCESS_TEXT, "The children are playing in the garden.")
        val controller = Robolectric.buildActivity(SelectionActivity::class.java, intent)
        shadowOf(controller.get()).setCallingActivity(ComponentName("org.example.notes", "org.example.notes.Editor"))
        val activity = controller.setup().visible().get()
        await("translation") { activity.text(R.id.selection_output) == "Die Kinder spielen im Garten." && activity.isShown(R.id.selection_copy) }
        draw(activity.window.decorView, "selection")
    }

    @Test
    fun `the icon`() {
        val view = ImageView(app).apply { setImageResource(R.mipmap.ic_launcher) }
        view.measure(View.MeasureSpec.makeMeasureSpec(ICON, View.MeasureSpec.EXACTLY), View.MeasureSpec.makeMeasureSpec(ICON, View.MeasureSpec.EXACTLY))
        view.layout(0, 0, ICON, ICON)
        draw(view, "icon")
    }

    @Test
    fun `no runtime`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        executorch.openFailure = FakeEngineFactory.missing("ExecuTorch")
        restart()
        val activity = launch().get()
        activity.findViewById<EditText>(R.id.input).setText("Good morning!")
        activity.click(R.id.translate)
        await("failure") { activity.isShown(R.id.error_card) }
        draw(activity.window.decorView, "no-runtime")
        assertEquals("No runtime could translate", activity.text(R.id.error_title))
    }

    private companion object {
        const val ICON = 288
    }
}
