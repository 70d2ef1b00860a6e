package dev.litenlp.app.ui.measure

import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.view.View
import android.view.ViewGroup
import android.widget.CheckBox
import android.widget.ProgressBar
import android.widget.RadioGroup
import android.widget.TextView
import dev.litenlp.app.R
import dev.litenlp.app.Sentences
import dev.litenlp.app.measure.BenchmarkJob
import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.measure.BenchmarkResult
import dev.litenlp.app.measure.Ending
import dev.litenlp.app.measure.MeasuredReport
import dev.litenlp.app.ui.Clipboard
import dev.litenlp.app.ui.Screen
import java.io.FileNotFoundException
import java.io.IOException

/** Chooses what to measure, shows how far it is, and the last result. */
class BenchmarkScreen : Screen(R.layout.benchmark) {
    private val runtimes = LinkedHashMap<String, CheckBox>()
    private val threads = LinkedHashMap<Int, CheckBox>()
    private lateinit var error: ErrorCard
    private lateinit var result: BenchmarkView
    private var observed: BenchmarkJob? = null
    private val draw: () -> Unit = ::drawAll

    override fun onCreated(saved: Bundle?) {
        error = ErrorCard(find(R.id.measure_error))
        result = BenchmarkView(find(R.id.benchmark_result))
        val chosenRuntimes = saved?.getStringArrayList(RUNTIMES)
        for (runtime in services.engines.runtimes) {
            val isChosen = chosenRuntimes?.contains(runtime) ?: true
            runtimes[runtime] = addChoice(R.id.benchmark_runtimes, Sentences.runtimeName(runtime), isChosen)
        }
        val chosenThreads = saved?.getIntegerArrayList(THREADS)
        for (count in BenchmarkRequest.sweep(services.preferences.threadChoices.last)) {
            val isChosen = chosenThreads?.contains(count) ?: true
            val box = addChoice(R.id.benchmark_threads, Sentences.count(context, count), isChosen)
            box.contentDescription = Figures.threads(context, count)
            threads[count] = box
        }
        find<RadioGroup>(R.id.benchmark_rounds).check(
            if (saved?.getBoolean(THOROUGH) == true) R.id.benchmark_thorough else R.id.benchmark_quick,
        )
        find<View>(R.id.benchmark_start).setOnClickListener { begin() }
        find<View>(R.id.benchmark_stop).setOnClickListener { services.measurements.benchmark?.cancel() }
        find<View>(R.id.benchmark_save).setOnClickListener { pickPlace() }
        find<View>(R.id.benchmark_share).setOnClickListener {
            services.measurements.report?.let { Clipboard.share(activity, it.json.toString(2)) }
        }
    }

    override fun onStart() {
        services.measurements.changes.observe(draw)
        services.measurements.load()
        drawAll()
    }

    override fun onStop() {
        services.measurements.changes.ignore(draw)
        observed?.changes?.ignore(draw)
        observed = null
        view.keepScreenOn = false
    }

    override fun onSaveState(state: Bundle) {
        state.putStringArrayList(RUNTIMES, ArrayList(chosenRuntimes()))
        state.putIntegerArrayList(THREADS, ArrayList(chosenThreads()))
        state.putBoolean(THOROUGH, isThorough())
    }

    override fun onResult(request: Int, result: Int, data: Intent?) {
        val place = data?.data
        if (request == SAVE && result == Activity.RESULT_OK && place != null) save(place)
    }

    private fun addChoice(list: Int, name: String, isChosen: Boolean): CheckBox {
        val box = activity.layoutInflater.inflate(R.layout.benchmark_choice, find(list), false) as CheckBox
        box.text = name
        box.isChecked = isChosen
        box.setOnClickListener { drawSettings() }
        find<ViewGroup>(list).addView(box)
        return box
    }

    private fun chosenRuntimes(): List<String> = runtimes.filterValues { it.isChecked }.keys.toList()

    private fun chosenThreads(): List<Int> = threads.filterValues { it.isChecked }.keys.toList()

    private fun isThorough(): Boolean = find<RadioGroup>(R.id.benchmark_rounds).checkedRadioButtonId == R.id.benchmark_thorough

    private fun begin() {
        val chosen = chosenRuntimes().takeIf { it.size < runtimes.size }
        val isThorough = isThorough()
        services.measurements.measure(
            BenchmarkRequest(chosen, chosenThreads(), warmup = if (isThorough) 1 else 0, repeats = if (isThorough) 3 else 1),
        )
    }

    private fun drawSettings() {
        find<View>(R.id.benchmark_start).isEnabled = chosenRuntimes().isNotEmpty() && chosenThreads().isNotEmpty()
    }

    private fun drawAll() {
        val job = services.measurements.benchmark
        if (job !== observed) {
            observed?.changes?.ignore(draw)
            job?.changes?.observe(draw)
            observed = job
        }
        drawSettings()
        val ending = job?.ending
        val isRunning = job != null && ending == null
        find<View>(R.id.benchmark_settings).showIf(!isRunning)
        find<View>(R.id.benchmark_start).showIf(!isRunning)
        find<View>(R.id.benchmark_busy).showIf(isRunning)
        // A screen that goes dark slows the device down and may end the process.
        view.keepScreenOn = isRunning
        if (job != null) drawProgress(job)
        error.show(ending, R.string.benchmark_failed_title)
        find<TextView>(R.id.benchmark_said).apply {
            showIf(ending is Ending.Cancelled)
            setText(R.string.benchmark_cancelled)
        }
        drawNotices(ending as? Ending.Done)
        val report = services.measurements.report.takeIf { !isRunning }
        find<View>(R.id.benchmark_result).showIf(report != null)
        if (report != null) result.show(report)
    }

    private fun drawProgress(job: BenchmarkJob) {
        val progress = job.progress
        val bar = find<ProgressBar>(R.id.benchmark_progress)
        bar.isIndeterminate = progress == null
        bar.max = progress?.total ?: 1
        bar.progress = progress?.done ?: 0
        val status = find<TextView>(R.id.benchmark_status)
        // Not every sentence: TalkBack would talk all the time.
        val isSaid = progress == null || progress.done % BenchmarkRequest.SENTENCES == 0
        status.accessibilityLiveRegion =
            if (isSaid) View.ACCESSIBILITY_LIVE_REGION_POLITE else View.ACCESSIBILITY_LIVE_REGION_NONE
        status.text = benchmarkStatus(context, job)
    }

    private fun drawNotices(done: Ending.Done<BenchmarkResult>?) {
        val list = find<ViewGroup>(R.id.benchmark_notices)
        list.removeAllViews()
        for (failure in done?.value?.failures.orEmpty()) {
            val notice = activity.layoutInflater.inflate(R.layout.notice, list, false) as TextView
            notice.text = context.getString(
                R.string.benchmark_partly,
                Sentences.runtimeName(failure.runtime),
                Sentences.about(context, failure.problem),
            )
            list.addView(notice)
        }
    }

    private fun pickPlace() {
        val name = services.measurements.report?.modelName ?: return
        val pick = Intent(Intent.ACTION_CREATE_DOCUMENT).addCategory(Intent.CATEGORY_OPENABLE)
            .setType("application/json").putExtra(Intent.EXTRA_TITLE, "$name-benchmark.json")
        try {
            activity.startActivityForResult(pick, SAVE)
        } catch (error: ActivityNotFoundException) {
            services.log.failure("place for the report", error)
            Clipboard.say(context, R.string.no_app)
        }
    }

    private fun save(place: Uri) {
        // If the process has ended behind the picker, the report that it kept is still being read.
        services.files.run {
            services.main.post {
                val report = services.measurements.report
                if (report == null) Clipboard.say(context, R.string.problem_storage_failed) else save(report, place)
            }
        }
    }

    private fun save(report: MeasuredReport, place: Uri) {
        val resolver = context.applicationContext.contentResolver
        val main = context.applicationContext
        services.files.run {
            val said = try {
                val stream = resolver.openOutputStream(place, "wt")
                    ?: throw FileNotFoundException("no place behind what was picked")
                stream.use { it.write((report.json.toString(2) + "\n").toByteArray()) }
                R.string.benchmark_saved
            } catch (error: IOException) {
                services.log.failure("saving the report", error)
                R.string.problem_storage_failed
            } catch (error: SecurityException) {
                services.log.failure("saving the report", error)
                R.string.problem_storage_failed
            }
            services.main.post { Clipboard.say(main, said) }
        }
    }

    private companion object {
        const val SAVE = 1
        const val RUNTIMES = "runtimes"
        const val THREADS = "threads"
        const val THOROUGH = "thorough"
    }
}
