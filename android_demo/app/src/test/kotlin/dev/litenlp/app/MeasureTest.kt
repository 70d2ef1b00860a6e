package dev.litenlp.app

import android.content.res.Configuration
import android.view.View
import android.view.ViewGroup
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import org.robolectric.RuntimeEnvironment
import org.robolectric.android.controller.ActivityController

/** Fixture of the measuring screens' tests. */
abstract class MeasureTest : AppTest() {
    /** Translates a text on the translate screen, as a person does before looking at its cost. */
    protected fun MainActivity.translateFirst(text: String) {
        services.translate.edit(text)
        services.translate.translate()
        await("end of the translation") { services.translate.job?.outcome != null }
    }

    protected fun launch(screen: String): ActivityController<MainActivity> = launch().also {
        it.get().show(screen)
        idle()
    }

    protected fun ActivityController<MainActivity>.rotate(): MainActivity {
        RuntimeEnvironment.setQualifiers("+land")
        configurationChange(Configuration(app.resources.configuration))
        return visible().get()
    }

    /** Texts that TalkBack would read of a view's children. */
    protected fun descriptions(view: View): List<String> {
        val own = listOfNotNull(view.contentDescription?.toString())
        if (view.visibility != View.VISIBLE || view !is ViewGroup) return own
        return own + (0 until view.childCount).flatMap { descriptions(view.getChildAt(it)) }
    }

    protected fun MainActivity.shown(id: Int): List<String> = shownTexts(findViewById(id))

    /** Draws a screen in German and in the dark too. */
    protected fun drawDarkGerman(screen: String, name: String) {
        RuntimeEnvironment.setQualifiers("+de-night")
        Screenshots.draw(launch(screen).get(), name)
    }

    /** Another factory whose engines take their time, so that pictures do not show what no device can do. */
    protected class Unhurried(private val factory: EngineFactory, private val stepMs: Long) : EngineFactory by factory {
        override fun open(bundle: InstalledBundle, threads: Int): Engine {
            Thread.sleep(OPEN_STEPS * stepMs)
            val engine = factory.open(bundle, threads)
            return object : Engine by engine {
                override fun start(sources: List<IntArray>, capacity: Int): Decoding {
                    val decoding = engine.start(sources, capacity)
                    return object : Decoding by decoding {
                        override fun step(tokens: IntArray): FloatArray {
                            Thread.sleep(maxOf(1, stepMs / threads))
                            return decoding.step(tokens)
                        }
                    }
                }
            }
        }

        private companion object {
            const val OPEN_STEPS = 8
        }
    }

    protected companion object {
        val MEASURING = listOf(Screens.BUDGET, Screens.COMPARE, Screens.BENCHMARK, Screens.ABOUT)
    }
}
