package dev.litenlp.app

import android.content.ComponentName
import android.content.Intent
import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.ui.measure.HeadlessBenchmarkActivity
import dev.litenlp.core.metrics.JsonSchema
import org.json.JSONObject
import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertThrows
import org.junit.Assert.assertTrue
import org.junit.Test
import org.robolectric.Robolectric
import org.robolectric.shadows.ShadowLog
import java.io.File
import java.util.concurrent.Semaphore

/** The benchmark by `adb shell am start`. */
class HeadlessBenchmarkTest : MeasureTest() {
    private fun start(extras: Intent.() -> Unit = {}) = Robolectric.buildActivity(
        HeadlessBenchmarkActivity::class.java,
        Intent(app, HeadlessBenchmarkActivity::class.java).apply(extras),
    ).setup()

    private fun file(name: String) = File(app.getExternalFilesDir(null), name)

    private fun logged(): List<String> = ShadowLog.getLogsForTag(HeadlessBenchmarkActivity.TAG).map { it.msg }

    private fun schema() = generateSequence(File("").absoluteFile) { it.parentFile }
        .map { File(it, "lite_nlp/assets/bench.schema.json") }.first { it.isFile }

    @Test
    fun `measures what the extras say, writes the report, and closes`() {
        restart()
        val activity = start {
            putExtra("runtime", "onnx")
            putExtra("threads", "1,2")
            putExtra("repeats", 2)
            putExtra("warmup", "0")
            putExtra("sentences", 3)
        }.get()
        await("end") { activity.isFinishing }
        val report = JSONObject(file("benchmark.json").readText())
        assertEquals(emptyList<String>(), JsonSchema(JSONObject(schema().readText())).faults(report))
        val rows = report.getJSONArray("rows")
        assertEquals(listOf(1, 2), (0 until rows.length()).map { rows.getJSONObject(it).getInt("threads") })
        val settings = report.getJSONObject("settings")
        assertEquals(listOf(3, 0, 2, 1), listOf("sentences", "warmup", "repeats", "beam").map(settings::getInt))
        assertEquals(0, executorch.opened.get())
        assertEquals("row ${rows.getJSONObject(0)}", logged().first())
        assertEquals("wrote ${file("benchmark.json")}", logged().last())
    }

    @Test
    fun `the report is kept for the screen too`() {
        restart()
        val activity = start { putExtra("sentences", 1) }.get()
        await("end") { activity.isFinishing }
        assertEquals(2, services.measurements.report!!.rows.distinctBy { it.runtime }.size)
    }

    @Test
    fun `a name for the file can be given, an old file is no result`() {
        restart()
        file("a.json").writeText("old")
        val permits = Semaphore(0)
        onnx.permits = permits
        val activity = start {
            putExtra("out", "a.json")
            putExtra("sentences", 1)
            putExtra("threads", 1)
        }.get()
        assertFalse("the old file is gone as soon as it begins", file("a.json").exists())
        permits.release(1000)
        await("end") { activity.isFinishing }
        assertTrue(file("a.json").readText().startsWith("{"))
    }

    @Test
    fun `what makes no sense is refused with a reason`() {
        for ((key, value, reason) in listOf(
            Triple("threads", "1,x", "threads: expected numbers of 1 to 64 such as 1,2,4, found '1,x'"),
            Triple("runtime", "tflite", "runtime: expected names among onnx executorch, found 'tflite'"),
            Triple("repeats", "0", "repeats: expected a number of 1 to 100, found '0'"),
            Triple("out", "../a.json", "out: expected a plain name that ends in .json, found '../a.json'"),
            Triple("speed", "high", "expected extras among runtime threads warmup repeats beam sentences model, found speed"),
        )) {
            restart()
            file("benchmark.json").writeText("old")
            val activity = start { putExtra(key, value) }.get()
            assertTrue(activity.isFinishing)
            assertEquals("failed $reason", logged().last())
            assertEquals("$reason\n", file("benchmark.error.txt").readText())
            assertFalse(file("benchmark.json").exists())
        }
    }

    @Test
    fun `a model that is not there is named`() {
        restart()
        val activity = start { putExtra("model", "other") }.get()
        await("end") { activity.isFinishing }
        assertEquals("failed expected the model other, found none", logged().last())
    }

    @Test
    fun `a model is found by its name`() {
        restart()
        val activity = start {
            putExtra("model", "tatoeba-en-de")
            putExtra("sentences", 1)
        }.get()
        await("end") { activity.isFinishing }
        assertTrue(file("benchmark.json").exists())
    }

    @Test
    fun `sentences that are too long for the model are cut to what it takes`() {
        val short = TestBundles.zip(change = { it.getJSONObject("bounds").put("source", 5) })
        restart(archives = mapOf("tatoeba-en-de.zip" to { short.inputStream() }))
        val activity = start {
            putExtra("sentences", 3)
            putExtra("threads", 1)
        }.get()
        await("end") { activity.isFinishing }
        val settings = JSONObject(file("benchmark.json").readText()).getJSONObject("settings")
        assertEquals("each has more than the four that leave room for the end mark", 3 * 4, settings.getInt("src_tokens"))
    }

    @Test
    fun `a missing runtime is said and the other measured, no runtime at all is a failure`() {
        onnx.openFailure = FakeEngineFactory.missing("ONNX Runtime")
        restart()
        val first = start { putExtra("sentences", 1) }.get()
        await("end") { first.isFinishing }
        assertTrue("${logged()}", "not measured onnx: RUNTIME_MISSING" in logged())
        assertTrue(file("benchmark.json").exists())
        executorch.openFailure = UnsatisfiedLinkError("no executorch")
        val second = start { putExtra("sentences", 1) }.get()
        await("end") { second.isFinishing }
        assertFalse(file("benchmark.json").exists())
        val reason = file("benchmark.error.txt").readText()
        assertTrue(reason, reason.startsWith("RUNTIME_MISSING onnx: RUNTIME_MISSING executorch: RUNTIME_MISSING"))
        assertTrue(reason, "no executorch" in reason)
    }

    @Test
    fun `closing the window stops it`() {
        restart()
        val permits = Semaphore(0)
        onnx.permits = permits
        val controller = start()
        await("beginning") { services.measurements.benchmark?.progress != null }
        assertTrue(controller.get().text(R.id.headless_status).startsWith("ONNX Runtime, 1 thread: 0 of "))
        controller.get().finish()
        controller.pause().stop().destroy()
        permits.release(1)
        await("end") { services.measurements.benchmark?.ending is Ending.Cancelled }
        assertFalse(file("benchmark.json").exists())
    }

    @Test
    fun `only the shell may start it`() {
        restart()
        @Suppress("DEPRECATION")
        val info = app.packageManager.getActivityInfo(ComponentName(app, HeadlessBenchmarkActivity::class.java), 0)
        assertTrue(info.exported)
        assertEquals("android.permission.DUMP", info.permission)
    }

    @Test
    fun `extras are read as they are written`() {
        fun parse(vararg values: Pair<String, String>) = BenchmarkRequest.parse(mapOf(*values), listOf("onnx", "executorch"), cores = 8)
        assertEquals(BenchmarkRequest(threads = listOf(1, 2, 4, 8)), parse())
        assertEquals(
            BenchmarkRequest(listOf("executorch", "onnx"), listOf(4, 1), warmup = 2, repeats = 5, beamSize = 4, sentences = 7, model = "m"),
            parse(
                "runtime" to "executorch, onnx,onnx", "threads" to "4, 1,4", "warmup" to "2", "repeats" to "5", "beam" to "4",
                "sentences" to "7", "model" to "m",
            ),
        )
        for ((key, value) in listOf("threads" to "", "threads" to "0", "threads" to "65", "beam" to "17", "sentences" to "33", "runtime" to "")) {
            assertThrows("$key $value", IllegalArgumentException::class.java) { parse(key to value) }
        }
    }
}
