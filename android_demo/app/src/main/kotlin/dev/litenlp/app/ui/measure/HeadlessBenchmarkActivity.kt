package dev.litenlp.app.ui.measure

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.util.Log
import android.view.WindowManager
import android.widget.ProgressBar
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Services
import dev.litenlp.app.measure.BenchmarkJob
import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.measure.BenchmarkResult
import dev.litenlp.app.measure.Ending
import java.io.File
import java.io.IOException

/**
 * A benchmark that is started by `adb shell am start` and needs no hand: the extras of the intent say what to measure
 * ([BenchmarkRequest.parse], and `out`, the name of the file), the report is written to the app's external files, each row to
 * the log under the tag [TAG], and the window closes by itself. docs/android.md shows it.
 *
 * Only who holds the permission DUMP may start it, which the shell does and no other app: measuring costs power.
 */
class HeadlessBenchmarkActivity : Activity() {
    private val services: Services get() = Services.of(this)
    private var job: BenchmarkJob? = null
    private val draw: () -> Unit = ::drawAll

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.headless)
        window.addFlags(WindowManager.LayoutParams.FLAG_KEEP_SCREEN_ON)
        // Made anew while it measures (another density, another language): it goes on with what is under way.
        val current = if (saved == null) begin() else services.measurements.benchmark
        if (current == null) {
            finish()
            return
        }
        job = current
        current.changes.observe(draw)
        drawAll()
    }

    override fun onDestroy() {
        job?.changes?.ignore(draw)
        if (isFinishing) job?.takeIf { it.ending == null }?.cancel()
        super.onDestroy()
    }

    /** Starts what the intent asks for; null if it asks for what cannot be. */
    private fun begin(): BenchmarkJob? {
        // Whoever waits for the file must not find that of the last time.
        output().delete()
        failureFile().delete()
        val values = values(intent)
        val request = try {
            val name = values[OUT] ?: DEFAULT_NAME
            require(NAME.matches(name)) { "$OUT: expected a plain name that ends in .json, found '$name'" }
            BenchmarkRequest.parse(values - OUT, services.engines.runtimes, Runtime.getRuntime().availableProcessors())
        } catch (error: IllegalArgumentException) {
            fail("${error.message}")
            return null
        }
        return services.measurements.measure(request)
    }

    private fun drawAll() {
        val current = job ?: return
        findViewById<TextView>(R.id.headless_status).text = benchmarkStatus(this, current)
        findViewById<ProgressBar>(R.id.headless_progress).apply {
            isIndeterminate = current.progress == null
            max = current.progress?.total ?: 1
            progress = current.progress?.done ?: 0
        }
        val ending = current.ending ?: return
        current.changes.ignore(draw)
        when (ending) {
            is Ending.Done -> write(ending.value)
            is Ending.Failed -> {
                val reasons = ending.failures.joinToString("") { " ${it.runtime}: ${it.problem}" }
                fail("${ending.problem}$reasons\n${services.log.text()}")
            }
            is Ending.NoModel -> fail("expected the model ${current.request.model ?: "that came with the app"}, found none")
            is Ending.Cancelled -> fail("stopped before its end")
        }
        finish()
    }

    private fun write(result: BenchmarkResult) {
        val json = result.report.json
        try {
            val file = output()
            val partial = File(file.path + ".part")
            partial.writeText(json.toString(2) + "\n")
            if (!partial.renameTo(file)) throw IOException("expected to rename $partial to $file")
            val rows = json.getJSONArray("rows")
            for (index in 0 until rows.length()) Log.i(TAG, "row ${rows.getJSONObject(index)}")
            for (failure in result.failures) Log.w(TAG, "not measured ${failure.runtime}: ${failure.problem}")
            Log.i(TAG, "wrote $file")
        } catch (error: IOException) {
            fail("${error.message}")
        }
    }

    private fun fail(message: String) {
        Log.e(TAG, "failed $message")
        services.log.info("benchmark by command: $message")
        try {
            failureFile().writeText("$message\n")
        } catch (error: IOException) {
            services.log.failure("benchmark by command", error)
        }
    }

    /** The folder that `adb pull` reaches without any permission; the app's own where there is no such storage. */
    private fun folder(): File = getExternalFilesDir(null) ?: filesDir

    private fun output(): File =
        File(folder(), values(intent)[OUT]?.takeIf(NAME::matches) ?: DEFAULT_NAME)

    private fun failureFile(): File = File(folder(), output().name.removeSuffix(".json") + ".error.txt")

    companion object {
        /** Of its lines in the system's log. */
        const val TAG = "LiteNlpBenchmark"

        private const val OUT = "out"
        private const val DEFAULT_NAME = "benchmark.json"
        private val NAME = Regex("[A-Za-z0-9._-]{1,80}\\.json")

        /** The extras as texts: `--es threads 2` and `--ei threads 2` mean the same. */
        private fun values(intent: Intent): Map<String, String> {
            val extras = intent.extras ?: return emptyMap()
            @Suppress("DEPRECATION")
            return extras.keySet().associateWith { extras.get(it).toString() }
        }
    }
}
