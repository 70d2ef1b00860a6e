package dev.litenlp.app

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.os.PowerManager
import android.view.View
import android.view.ViewGroup
import android.widget.CheckBox
import android.widget.ProgressBar
import android.widget.RadioButton
import android.widget.ScrollView
import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.measure.MeasuredReport
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.metrics.JsonSchema
import dev.litenlp.core.metrics.tokensSha256
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertNotNull
import org.junit.Assert.assertNull
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowToast
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.IOException
import java.io.OutputStream
import java.util.concurrent.Semaphore

class BenchmarkScreenTest : MeasureTest() {
    private fun MainActivity.box(list: Int, index: Int): CheckBox = findViewById<ViewGroup>(list).getChildAt(index) as CheckBox

    /** Leaves one count of threads, so that a test does not take long. */
    private fun MainActivity.choose(vararg threads: Int) {
        for (index in 0 until findViewById<ViewGroup>(R.id.benchmark_threads).childCount) {
            val box = box(R.id.benchmark_threads, index)
            if (box.isChecked != (box.text.toString().toInt() in threads)) box.performClick()
        }
    }

    private fun awaitEnd() = await("end of the benchmark") { services.measurements.benchmark?.ending != null }

    private fun MainActivity.measure() {
        click(R.id.benchmark_start)
        awaitEnd()
    }

    private fun done(): MeasuredReport = (services.measurements.benchmark?.ending as Ending.Done).value.report

    private fun tables(activity: MainActivity): List<List<String>> =
        activity.findViewById<ViewGroup>(R.id.benchmark_tables).let { list -> (0 until list.childCount).map { shownTexts(list.getChildAt(it)) } }

    private fun repository(): File = generateSequence(File("").absoluteFile) { it.parentFile }.first { File(it, "lite_nlp/assets").isDirectory }

    @Test
    fun `both runtimes are measured and the report follows the schema`() {
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        val schema = JsonSchema(JSONObject(File(repository(), "lite_nlp/assets/bench.schema.json").readText()))
        val json = JSONObject(done().json.toString())
        assertEquals(emptyList<String>(), schema.faults(json))
        assertEquals("lite-nlp android", json.getString("tool"))
        assertEquals("phone", json.getJSONObject("device").getString("kind"))
        assertEquals(listOf("onnx" to 1, "executorch" to 1), done().rows.map { it.runtime to it.threads })
        // The engines repeat what they do not know: the hash is that of the sentences themselves.
        val tokenizer = services.models.selected!!.bundle.tokenizer()
        val sentences = File(repository(), "lite_nlp/assets/everyday.en-de.tsv").readLines().take(32).map { it.substringBefore('\t') }
        val expected = tokensSha256(sentences.map(tokenizer::encode))
        assertEquals(setOf(expected), done().rows.map { it.tokensSha256 }.toSet())
        assertEquals(listOf("lite-nlp-inference"), onnx.stepThreads)
        assertEquals("no engine stays open", 0, onnx.openEngines.get() + executorch.openEngines.get())
    }

    @Test
    fun `the result is a table per runtime with a column per count of threads`() {
        restart()
        shadowOf(app.getSystemService(PowerManager::class.java)).setCurrentThermalStatus(PowerManager.THERMAL_STATUS_LIGHT)
        val activity = launch(Screens.BENCHMARK).get()
        services.measurements.measure(BenchmarkRequest(threads = listOf(1, 2), warmup = 0, repeats = 1))
        awaitEnd()
        val (first, second) = tables(activity)
        assertEquals(listOf("ONNX Runtime 1.0", "Threads", "1", "2"), first.take(4))
        assertEquals(listOf("ExecuTorch 1.0", "Threads", "1", "2"), second.take(4))
        val rows = first.drop(4).chunked(3).associate { it[0] to it.drop(1) }
        assertEquals(
            listOf(
                "Precision of the weights", "Tokens per second", "GMAC/s", "First token, median", "First token, p90", "Sentence, median",
                "Sentence, p90", "Load, cold", "Load, warm", "Memory, loaded", "Memory, most", "Throttled",
            ),
            rows.keys.toList(),
        )
        assertEquals(listOf("fp32", "fp32"), rows["Precision of the weights"])
        assertEquals(listOf("lightly", "lightly"), rows["Throttled"])
        val onnxRows = done().rows.filter { it.runtime == "onnx" }
        assertEquals(onnxRows.map { Sentences.duration(activity, it.sentenceP90) }, rows["Sentence, p90"])
        assertTrue("${rows["Memory, most"]}", rows.getValue("Memory, most").all { it.endsWith("B") })
        assertEquals("All rows produced the same tokens.", activity.text(R.id.benchmark_tokens))
        assertTrue(activity.text(R.id.benchmark_about), activity.text(R.id.benchmark_about).startsWith("tatoeba-en-de, 32 sentences, "))
        val said = descriptions(activity.findViewById(R.id.benchmark_tables))
        assertTrue("$said", said.any { it.startsWith("Tokens per second · 1 thread ") && " · 2 threads " in it })
        val device = activity.shown(R.id.benchmark_device)
        assertTrue("$device", device.any { it.startsWith("Android 15 (API 35)") })
    }

    @Test
    fun `what is chosen is what is measured`() {
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(2)
        activity.box(R.id.benchmark_runtimes, 0).performClick()
        activity.findViewById<View>(R.id.benchmark_thorough).performClick()
        activity.measure()
        assertEquals(listOf("executorch" to 2), done().rows.map { it.runtime to it.threads })
        assertEquals(3, done().repeats)
        assertEquals(0, onnx.opened.get())
        assertFalse("one row has nothing to agree with", activity.isShown(R.id.benchmark_tokens))
    }

    @Test
    fun `without a runtime or a count of threads there is nothing to start`() {
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose()
        assertFalse(activity.findViewById<View>(R.id.benchmark_start).isEnabled)
        activity.choose(1)
        assertTrue(activity.findViewById<View>(R.id.benchmark_start).isEnabled)
    }

    @Test
    fun `tells how far it is, keeps the screen on, and can be stopped`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.click(R.id.benchmark_start)
        await("beginning") { activity.text(R.id.benchmark_status).startsWith("ONNX Runtime, 1 thread: 0 of 64") }
        assertTrue(activity.findViewById<View>(R.id.benchmark_scroll).keepScreenOn)
        assertFalse(activity.isShown(R.id.benchmark_settings))
        permits.release(40)
        await("progress") { activity.findViewById<ProgressBar>(R.id.benchmark_progress).progress > 0 }
        Screenshots.draw(activity, "check-benchmark-running")
        activity.click(R.id.benchmark_stop)
        permits.release(1)
        awaitEnd()
        assertEquals("Stopped; nothing was kept of it.", activity.text(R.id.benchmark_said))
        assertFalse(activity.isShown(R.id.benchmark_result))
        assertFalse(activity.findViewById<View>(R.id.benchmark_scroll).keepScreenOn)
        assertEquals(0, onnx.openEngines.get())
    }

    @Test
    fun `a missing runtime is explained and the other measured`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        assertEquals(listOf("executorch"), done().rows.map { it.runtime })
        assertEquals(
            "ONNX Runtime was not measured with all threads. This runtime is not available on this device or for this model.",
            activity.shown(R.id.benchmark_notices).single(),
        )
    }

    @Test
    fun `if nothing can be measured each reason is given`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        executorch.stepFailure = LiteNlpException(Problem.RUNTIME_FAILED, "step 1: expected success, found code 1")
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        assertEquals("Nothing could be measured", activity.text(R.id.measure_error_title))
        assertEquals(
            "ONNX Runtime: This runtime is not available on this device or for this model.\nExecuTorch: The runtime stopped with an error.",
            activity.text(R.id.measure_error_text),
        )
        assertTrue("step 1: expected success, found code 1" in services.report())
        assertNull(services.measurements.report)
    }

    @Test
    fun `a library that does not link is a missing runtime here too`() {
        onnx.openFailure = UnsatisfiedLinkError("no lite_nlp_ort")
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        assertEquals(listOf("executorch"), done().rows.map { it.runtime })
    }

    @Test
    fun `runtimes that produce other tokens are pointed out`() {
        val sentence = "Cut the onions into thin rings."
        restart(listOf(onnx, FakeEngineFactory("executorch", mapOf(sentence to "Nein."))))
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        assertTrue(activity.text(R.id.benchmark_tokens), activity.text(R.id.benchmark_tokens).startsWith("The rows did not all produce the same tokens"))
    }

    @Test
    fun `the report is saved where a person picks, and shared`() {
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        activity.click(R.id.benchmark_save)
        val asked = shadowOf(activity).nextStartedActivityForResult
        assertEquals(Intent.ACTION_CREATE_DOCUMENT, asked.intent.action)
        assertEquals("tatoeba-en-de-benchmark.json", asked.intent.getStringExtra(Intent.EXTRA_TITLE))
        val place = Uri.parse("content://documents/report")
        val written = ByteArrayOutputStream()
        shadowOf(activity.contentResolver).registerOutputStream(place, written)
        shadowOf(activity).receiveResult(asked.intent, Activity.RESULT_OK, Intent().setData(place))
        await("file") { written.size() > 0 && ShadowToast.getTextOfLatestToast() == "The report is saved." }
        assertEquals(done().json.toString(), JSONObject(String(written.toByteArray())).toString())
        activity.click(R.id.benchmark_share)
        @Suppress("DEPRECATION")
        val shared = shadowOf(activity).nextStartedActivity.getParcelableExtra<Intent>(Intent.EXTRA_INTENT)!!
        assertEquals(done().json.toString(), JSONObject(shared.getStringExtra(Intent.EXTRA_TEXT)!!).toString())
    }

    @Test
    fun `a place that cannot be written to is said`() {
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        activity.click(R.id.benchmark_save)
        val asked = shadowOf(activity).nextStartedActivityForResult
        val place = Uri.parse("content://documents/full")
        shadowOf(activity.contentResolver).registerOutputStream(place, FullDisk())
        shadowOf(activity).receiveResult(asked.intent, Activity.RESULT_OK, Intent().setData(place))
        await("sentence") { ShadowToast.getTextOfLatestToast() == "The file could not be read or written. Check the storage and try again." }
        assertTrue("no space left" in services.report())
    }

    private class FullDisk : OutputStream() {
        override fun write(value: Int) = throw IOException("no space left")
    }

    @Test
    fun `a rotation keeps choices and result, and a benchmark goes on through it`() {
        restart()
        val permits = Semaphore(0)
        executorch.permits = permits
        val controller = launch(Screens.BENCHMARK)
        controller.get().choose(2)
        controller.get().findViewById<View>(R.id.benchmark_thorough).performClick()
        controller.get().click(R.id.benchmark_start)
        await("second runtime") { controller.get().text(R.id.benchmark_status).startsWith("ExecuTorch") }
        val turned = controller.rotate()
        assertTrue(turned.isShown(R.id.benchmark_busy))
        permits.release(100_000)
        awaitEnd()
        await("result") { turned.isShown(R.id.benchmark_result) }
        assertTrue(turned.findViewById<RadioButton>(R.id.benchmark_thorough).isChecked)
        assertFalse(turned.box(R.id.benchmark_threads, 0).isChecked)
        assertEquals(2, tables(turned).size)
    }

    @Test
    fun `the last result survives the end of the process`() {
        restart()
        val controller = launch(Screens.BENCHMARK)
        controller.get().choose(1)
        controller.get().measure()
        val before = tables(controller.get())
        await("file") { services.files.isIdle }
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart()
        val next = Robolectric.buildActivity(MainActivity::class.java).setup(saved).get()
        await("kept report") { next.isShown(R.id.benchmark_result) }
        assertEquals(before, tables(next))
        assertNull(services.measurements.benchmark)
    }

    @Test
    fun `a report is saved also if the process ended behind the picker`() {
        restart()
        val controller = launch(Screens.BENCHMARK)
        controller.get().choose(1)
        controller.get().measure()
        await("file") { services.files.isIdle }
        val report = done().json.toString()
        controller.get().click(R.id.benchmark_save)
        val asked = shadowOf(controller.get()).nextStartedActivityForResult
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved)
        restart()
        val place = Uri.parse("content://documents/report")
        val written = ByteArrayOutputStream()
        shadowOf(app.contentResolver).registerOutputStream(place, written)
        val next = Robolectric.buildActivity(MainActivity::class.java).create(saved).start().restoreInstanceState(saved)
        next.get().startActivityForResult(asked.intent, asked.requestCode)
        shadowOf(next.get()).receiveResult(asked.intent, Activity.RESULT_OK, Intent().setData(place))
        await("file") { written.size() > 0 && ShadowToast.getTextOfLatestToast() == "The report is saved." }
        assertEquals(report, JSONObject(String(written.toByteArray())).toString())
    }

    @Test
    fun `a damaged kept result is left out`() {
        for (content in listOf("{\"rows\": [", "{\"rows\": [{}]}", "[]")) {
            app.filesDir.resolve("benchmark.json").writeText(content)
            restart()
            val activity = launch(Screens.BENCHMARK).get()
            await("read") { "kept benchmark" in services.log.text() }
            assertFalse(activity.isShown(R.id.benchmark_result))
        }
    }

    @Test
    fun `a translation that is asked for ends a benchmark`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        launch(Screens.BENCHMARK)
        services.measurements.measure(BenchmarkRequest(threads = listOf(1)))
        services.translate.edit("Good morning!")
        services.translate.translate()
        permits.release(1000)
        await("translation") { services.translate.job?.partial == "Guten Morgen!" }
        assertTrue(services.measurements.benchmark?.ending is Ending.Cancelled)
    }

    @Test
    fun `the engines that translated are closed for it`() {
        restart()
        val activity = launch().get()
        activity.translateFirst("Good morning!")
        assertEquals(1, onnx.openEngines.get())
        onnx.permits = Semaphore(0)
        services.measurements.measure(BenchmarkRequest(runtimes = listOf("executorch"), threads = listOf(1)))
        awaitEnd()
        assertEquals(0, onnx.openEngines.get())
        assertNotNull(services.measurements.report)
    }

    @Test
    fun `German says the same`() {
        RuntimeEnvironment.setQualifiers("+de")
        restart()
        val activity = launch(Screens.BENCHMARK).get()
        activity.choose(1)
        activity.measure()
        assertEquals("Alle Zeilen haben dieselben Tokens ergeben.", activity.text(R.id.benchmark_tokens))
        assertTrue("Gedrosselt" in tables(activity)[0])
    }

    @Test
    fun `counts of threads double up to all cores`() {
        assertEquals(listOf(1), BenchmarkRequest.sweep(1))
        assertEquals(listOf(1, 2), BenchmarkRequest.sweep(2))
        assertEquals(listOf(1, 2, 4, 6), BenchmarkRequest.sweep(6))
        assertEquals(listOf(1, 2, 4, 8), BenchmarkRequest.sweep(8))
    }

    @Test
    @Config(qualifiers = "w360dp-h800dp-hdpi")
    fun picture() {
        restart(listOf(Unhurried(onnx, 4), Unhurried(executorch, 5)))
        val activity = launch(Screens.BENCHMARK).get()
        services.measurements.measure(BenchmarkRequest(threads = listOf(1, 2, 4), warmup = 0, repeats = 1, sentences = 8))
        awaitEnd()
        idle()
        Screenshots.draw(activity, "check-benchmark-settings")
        val scroll = activity.findViewById<ScrollView>(R.id.benchmark_scroll)
        scroll.scrollTo(0, activity.findViewById<View>(R.id.benchmark_result).top)
        Screenshots.draw(activity, "benchmark")
        RuntimeEnvironment.setQualifiers("+de-night")
        val german = launch(Screens.BENCHMARK).get()
        idle()
        german.findViewById<ScrollView>(R.id.benchmark_scroll).scrollTo(0, german.findViewById<View>(R.id.benchmark_result).top)
        Screenshots.draw(german, "benchmark-dark-german")
    }
}
