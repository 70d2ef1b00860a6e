package dev.litenlp.app

import android.app.Activity
import android.content.Intent
import android.os.Looper
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.core.engine.EngineFactory
import org.junit.After
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import org.robolectric.annotation.Config
import org.robolectric.annotation.GraphicsMode
import java.io.ByteArrayInputStream
import java.io.InputStream
import java.time.Duration

/** Fixture of the app's tests: an app that has run before, with one model and two engines. */
@RunWith(RobolectricTestRunner::class)
@GraphicsMode(GraphicsMode.Mode.NATIVE)
@Config(application = TestApplication::class, sdk = [35], qualifiers = "w360dp-h740dp-hdpi")
abstract class AppTest {
    protected val app: TestApplication get() = RuntimeEnvironment.getApplication() as TestApplication
    protected val services: Services get() = app.services
    protected val onnx = FakeEngineFactory("onnx", KNOWN)
    protected val executorch = FakeEngineFactory("executorch", KNOWN)
    private val controllers = ArrayList<ActivityController<*>>()

    @After
    fun stopThreads() {
        onnx.permits?.release(1_000_000)
        executorch.permits?.release(1_000_000)
        services.inference.stop()
        services.installs.stop()
        services.files.stop()
    }

    /**
     * Begins a process with a model, and waits until it is installed.
     *
     * @param typing,figures settings; null leaves them as they are. Most tests press the button and read the figures
     */
    protected fun restart(
        factories: List<EngineFactory> = listOf(onnx, executorch),
        archives: Map<String, () -> InputStream> = mapOf("tatoeba-en-de.zip" to { ByteArrayInputStream(TestBundles.zip()) }),
        freeBytes: Long = 1L shl 40,
        appVersion: String = "1",
        typing: Boolean? = false,
        figures: Boolean? = true,
    ): Services {
        Preferences(app).let { stored ->
            if (typing != null) stored.translatesWhileTyping = typing
            if (figures != null) stored.showsFigures = figures
        }
        val made = app.restart(factories, archives, freeBytes = { freeBytes }, appVersion = appVersion)
        await("models looked at") { !made.models.isPreparing && made.models.installing == null }
        return made
    }

    protected fun launch(intent: Intent? = null): ActivityController<MainActivity> =
        Robolectric.buildActivity(MainActivity::class.java, intent ?: Intent(Intent.ACTION_MAIN))
            .also { controllers += it }.setup().visible()

    /** Runs the main thread's tasks until a condition holds. */
    protected fun await(what: String, condition: () -> Boolean) {
        val end = System.nanoTime() + PATIENCE_NANOS
        while (true) {
            shadowOf(Looper.getMainLooper()).idleFor(Duration.ofMillis(STEP_MS))
            if (condition()) {
                // What another thread has handed over between the two lines above.
                idle()
                return
            }
            if (System.nanoTime() > end) throw AssertionError("waited in vain: $what\n${services.log.text()}")
            Thread.sleep(STEP_MS)
        }
    }

    /** Runs the main thread's pending tasks. */
    protected fun idle() = shadowOf(Looper.getMainLooper()).idle()

    protected fun Activity.click(id: Int) {
        val view = findViewById<View>(id)
        check(view.isShown) { "expected ${resources.getResourceEntryName(id)} to be shown" }
        check(view.performClick()) { "expected ${resources.getResourceEntryName(id)} to take a click" }
        idle()
    }

    protected fun Activity.text(id: Int): String = findViewById<TextView>(id).text.toString()

    protected fun Activity.isShown(id: Int): Boolean = findViewById<View>(id).isShown

    /** All texts that are shown within a view, from top to bottom. */
    protected fun shownTexts(view: View): List<String> = when {
        view.visibility != View.VISIBLE -> emptyList()
        view is TextView -> listOf(view.text.toString()).filter { it.isNotEmpty() }
        view is ViewGroup -> (0 until view.childCount).flatMap { shownTexts(view.getChildAt(it)) }
        else -> emptyList()
    }

    protected companion object {
        const val PATIENCE_NANOS = 300_000_000_000L
        const val STEP_MS = 5L

        /** Translations by the shipped model, for the fake engines. */
        val KNOWN = mapOf(
            "Where is the nearest train station?" to "Wo ist der nächste Bahnhof?",
            "Good morning!" to "Guten Morgen!",
            "I would like a cup of coffee, please." to "Ich hätte gerne eine Tasse Kaffee.",
            "The children are playing in the garden." to "Die Kinder spielen im Garten.",
        )
    }
}
