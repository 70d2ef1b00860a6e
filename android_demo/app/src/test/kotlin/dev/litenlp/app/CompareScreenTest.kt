package dev.litenlp.app

import android.os.Bundle
import android.widget.EditText
import android.widget.TextView
import dev.litenlp.app.measure.Difference
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.measure.Side
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import java.util.concurrent.Semaphore

class CompareScreenTest : MeasureTest() {
    private fun MainActivity.compare(text: String) {
        findViewById<EditText>(R.id.compare_input).setText(text)
        click(R.id.compare_start)
        await("end of the comparison") { services.measurements.comparison?.ending != null }
    }

    private val other = FakeEngineFactory("executorch", KNOWN + ("Good morning!" to "Guten Tag!"))

    @Test
    fun `both runtimes translate the same text to the same tokens`() {
        restart()
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Where is the nearest train station?")
        val tokens = services.models.selected!!.bundle.tokenizer().encode("Wo ist der nächste Bahnhof?").size
        assertEquals("Same output", activity.text(R.id.compare_verdict_title))
        assertEquals("ONNX Runtime and ExecuTorch produced the same $tokens tokens.", activity.text(R.id.compare_verdict_text))
        assertEquals(listOf("Output of both", "Wo ist der nächste Bahnhof?"), activity.shown(R.id.compare_sides))
        assertFalse(activity.isShown(R.id.compare_log))
        assertEquals(listOf("lite-nlp-inference"), onnx.stepThreads)
        assertEquals(listOf("lite-nlp-inference"), executorch.stepThreads)
        val open = onnx.openEngines.get() + executorch.openEngines.get()
        assertEquals("one after the other, so that neither has the other's memory", 1, open)
    }

    @Test
    fun `the times stand beside each other`() {
        restart(listOf(Unhurried(onnx, 3), Unhurried(executorch, 3)))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        val texts = activity.shown(R.id.compare_times)
        assertEquals(listOf("ONNX\nRuntime", "ExecuTorch"), texts.take(2))
        val rows = texts.drop(2).chunked(3)
        assertEquals(listOf("Load", "First token", "Total", "Tokens per second", "Version"), rows.map { it[0] })
        val made = (services.measurements.comparison!!.ending as Ending.Done).value.made
        // However long it took on the machine of this test.
        fun times(of: (Side.Made) -> Double) = made.map { Sentences.duration(activity, of(it)) }
        assertEquals(times { it.loadMs }, rows[0].drop(1))
        assertEquals(times { it.translation.firstTokenMs }, rows[1].drop(1))
        assertEquals(times { it.translation.totalMs }, rows[2].drop(1))
        assertEquals(made.map { Sentences.decimal(activity, it.tokensPerSecond, 0) }, rows[3].drop(1))
        for (side in made) {
            assertTrue("load ${side.loadMs}", side.loadMs > 10)
            assertTrue("first ${side.translation.firstTokenMs}", side.translation.firstTokenMs in 1.0..side.translation.totalMs)
        }
        val said = descriptions(activity.findViewById(R.id.compare_times))
        assertTrue("$said", said.any { it.startsWith("Load · ONNX Runtime ") && " · ExecuTorch " in it })
    }

    @Test
    @Config(qualifiers = "w360dp-h800dp-hdpi")
    fun `different outputs are an error that says where they part`() {
        restart(listOf(onnx, other))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        val tokenizer = services.models.selected!!.bundle.tokenizer()
        val one = tokenizer.encode("Guten Morgen!")
        val two = tokenizer.encode("Guten Tag!")
        val place = one.indices.first { one[it] != two[it] }
        assertEquals("The outputs differ", activity.text(R.id.compare_verdict_title))
        assertEquals(
            "They part at token ${place + 1}: ONNX Runtime has number ${one[place]}, ExecuTorch has ${two[place]}. One of them " +
                "computes something else than the model says; please report this with the log.\nThe same until then: “Guten”",
            activity.text(R.id.compare_verdict_text),
        )
        assertEquals(listOf("ONNX Runtime", "Guten Morgen!", "ExecuTorch", "Guten Tag!"), activity.shown(R.id.compare_sides))
        assertTrue("differ in piece 1 at token ${place + 1}: ${one[place]} and ${two[place]}" in services.report())
        assertFalse("the log holds no texts", "Guten" in services.report())
        activity.click(R.id.compare_log)
        Screenshots.draw(activity, "compare-differ")
    }

    @Test
    fun `an output that ends earlier differs at its end`() {
        restart(listOf(onnx, FakeEngineFactory("executorch", KNOWN + ("Good morning!" to "Guten Morgen"))))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!\nGood morning!")
        val said = activity.text(R.id.compare_verdict_text)
        assertTrue(said, said.startsWith("They part in piece 1 of the text at token ") && "ExecuTorch has the end." in said)
    }

    @Test
    fun `the first difference is found wherever it is`() {
        val decode: (IntArray) -> String = { it.joinToString("-") }
        fun between(one: List<IntArray>, two: List<IntArray>) = Difference.between(one, two, decode)
        val same = listOf(intArrayOf(5, 6), intArrayOf(), intArrayOf(7))
        assertNull(between(same, same.map { it.copyOf() }))
        assertEquals(Difference(3, 1, "", 7 to 8), between(same, listOf(intArrayOf(5, 6), intArrayOf(), intArrayOf(8))))
        assertEquals(Difference(1, 2, "5", 6 to null), between(same, listOf(intArrayOf(5), intArrayOf(), intArrayOf(7))))
        assertEquals(Difference(2, 1, "", null to 9), between(same, listOf(intArrayOf(5, 6), intArrayOf(9), intArrayOf(7))))
    }

    @Test
    fun `a missing runtime is explained while the other translates`() {
        executorch.openFailure = FakeEngineFactory.missing("ExecuTorch")
        restart()
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        assertEquals("Only ONNX Runtime could translate", activity.text(R.id.compare_verdict_title))
        assertEquals(
            listOf("ONNX Runtime", "Guten Morgen!", "ExecuTorch", "This runtime is not available on this device or for this model."),
            activity.shown(R.id.compare_sides),
        )
        assertEquals("–", activity.shown(R.id.compare_times)[4])
        assertTrue("expected the library of ExecuTorch, found none" in services.report())
        Screenshots.draw(activity, "check-compare-missing")
    }

    @Test
    fun `a runtime that the model has no graphs for is not tried`() {
        restart(archives = mapOf("a.zip" to { TestBundles.zip(change = { it.put("onnx", JSONObject.NULL) }).inputStream() }))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        assertEquals("Only ExecuTorch could translate", activity.text(R.id.compare_verdict_title))
        assertEquals(0, onnx.opened.get())
    }

    @Test
    fun `a runtime that fails in the middle, or does not link, is a missing one`() {
        onnx.openFailure = UnsatisfiedLinkError("no lite_nlp_ort")
        executorch.stepFailure = LiteNlpException(Problem.RUNTIME_FAILED, "step 1: expected success, found code 1")
        restart()
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        assertEquals("No runtime could translate", activity.text(R.id.measure_error_title))
        assertEquals(
            "ONNX Runtime: This runtime is not available on this device or for this model.\nExecuTorch: The runtime stopped with an error.",
            activity.text(R.id.measure_error_text),
        )
        assertFalse(activity.isShown(R.id.compare_result))
        assertEquals("nothing stays open", 0, executorch.openEngines.get())
    }

    @Test
    fun `a problem of the text is no problem of a runtime`() {
        restart()
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good \uD83D morning")
        assertEquals("The text contains broken characters. Copy it again or retype it.", activity.text(R.id.measure_error_text))
        assertEquals(emptyMap<String, LiteNlpException>(), services.engines.failures(services.models.selected!!.bundle))
    }

    @Test
    fun `a text that is deleted here takes its translation away`() {
        restart(typing = true)
        val activity = launch().get()
        activity.translateFirst("Good morning!")
        activity.show(Screens.COMPARE)
        activity.findViewById<EditText>(R.id.compare_input).setText("")
        activity.show(Screens.TRANSLATE)
        assertEquals("", activity.text(R.id.input))
        assertFalse(activity.isShown(R.id.output_card))
    }

    @Test
    fun `can be stopped, and begun again`() {
        restart()
        val permits = Semaphore(0)
        executorch.permits = permits
        val activity = launch(Screens.COMPARE).get()
        activity.findViewById<EditText>(R.id.compare_input).setText("Good morning!")
        activity.click(R.id.compare_start)
        await("second runtime") { activity.text(R.id.compare_status) == "ExecuTorch translates…" }
        activity.click(R.id.compare_stop)
        permits.release(1)
        await("end") { activity.isShown(R.id.compare_start) }
        assertEquals("Stopped.", activity.text(R.id.compare_status))
        assertFalse(activity.isShown(R.id.compare_result))
        permits.release(1000)
        activity.compare("Good morning!")
        assertEquals("Same output", activity.text(R.id.compare_verdict_title))
    }

    @Test
    fun `a translation that is asked for ends it`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val activity = launch(Screens.COMPARE).get()
        activity.findViewById<EditText>(R.id.compare_input).setText("Good morning!")
        activity.click(R.id.compare_start)
        services.translate.translate()
        permits.release(1000)
        await("translation") { services.translate.job?.partial == "Guten Morgen!" }
        assertTrue("${services.measurements.comparison?.ending}", services.measurements.comparison?.ending is Ending.Cancelled)
    }

    @Test
    fun `waits for the model at the first start`() {
        val gate = Semaphore(0)
        val slow = {
            gate.acquire()
            TestBundles.zip().inputStream()
        }
        app.restart(listOf(onnx, executorch), mapOf("tatoeba-en-de.zip" to slow))
        val activity = launch(Screens.COMPARE).get()
        activity.findViewById<EditText>(R.id.compare_input).setText("Good morning!")
        activity.click(R.id.compare_start)
        assertEquals("Waiting for the model…", activity.text(R.id.compare_status))
        gate.release()
        await("comparison") { activity.isShown(R.id.compare_verdict) }
    }

    @Test
    fun `without a model it says so`() {
        restart(archives = emptyMap())
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        assertEquals("There is no model", activity.text(R.id.measure_error_title))
    }

    @Test
    fun `the text is that of the translate screen, and an example is at hand`() {
        restart()
        val activity = launch(Screens.COMPARE).get()
        assertFalse(activity.findViewById<TextView>(R.id.compare_start).isEnabled)
        activity.click(R.id.compare_example)
        assertEquals("Where is the nearest train station?", activity.text(R.id.compare_input))
        assertFalse(activity.isShown(R.id.compare_example))
        activity.show(Screens.TRANSLATE)
        assertEquals("Where is the nearest train station?", activity.text(R.id.input))
    }

    @Test
    fun `a rotation keeps the result, and a comparison goes on through it`() {
        restart()
        val permits = Semaphore(0)
        executorch.permits = permits
        val controller = launch(Screens.COMPARE)
        controller.get().findViewById<EditText>(R.id.compare_input).setText("Good morning!")
        controller.get().click(R.id.compare_start)
        await("second runtime") { controller.get().text(R.id.compare_status) == "ExecuTorch translates…" }
        val turned = controller.rotate()
        assertTrue(turned.isShown(R.id.compare_stop))
        permits.release(1000)
        await("end") { turned.isShown(R.id.compare_verdict) }
        assertEquals("Good morning!", turned.text(R.id.compare_input))
        assertEquals("Same output", turned.text(R.id.compare_verdict_title))
        assertEquals(1, onnx.opened.get())
    }

    @Test
    fun `the end of the process keeps the text`() {
        restart()
        val controller = launch(Screens.COMPARE)
        controller.get().compare("Good morning!")
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart()
        val next = Robolectric.buildActivity(MainActivity::class.java).setup(saved).get()
        assertEquals(Screens.COMPARE, next.shown)
        assertEquals("Good morning!", next.text(R.id.compare_input))
        assertFalse(next.isShown(R.id.compare_result))
    }

    @Test
    fun `German says the same`() {
        RuntimeEnvironment.setQualifiers("+de")
        restart(listOf(onnx, other))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Good morning!")
        assertEquals("Die Ausgaben sind verschieden", activity.text(R.id.compare_verdict_title))
        activity.compare("Where is the nearest train station?")
        assertEquals("Gleiche Ausgabe", activity.text(R.id.compare_verdict_title))
    }

    @Test
    @Config(qualifiers = "w360dp-h800dp-hdpi")
    fun picture() {
        restart(listOf(Unhurried(onnx, 4), Unhurried(executorch, 5)))
        val activity = launch(Screens.COMPARE).get()
        activity.compare("Where is the nearest train station?")
        Screenshots.draw(activity, "compare")
        drawDarkGerman(Screens.COMPARE, "compare-dark-german")
    }
}
