package dev.litenlp.app.measure

import android.util.AtomicFile
import dev.litenlp.app.Changes
import dev.litenlp.app.Services
import dev.litenlp.app.isThere
import org.json.JSONException
import org.json.JSONObject
import java.io.File
import java.io.IOException

/**
 * Results of this process's measurements; the last benchmark's report is kept across processes. All members are for the main
 * thread.
 *
 * @param file keeps the report
 */
class Measurements(private val services: Services, file: File) {
    private val file = AtomicFile(file)
    private var hasRead = false

    /** Announces a new [benchmark], its end, and that the kept [report] is read. */
    val changes = Changes()

    /** The last comparison begun in this process. */
    var comparison: CompareJob? = null
        private set

    /** The last benchmark begun in this process. */
    var benchmark: BenchmarkJob? = null
        private set

    /** The last benchmark's report, null if there is none or it is not read yet. */
    var report: MeasuredReport? = null
        private set

    /** Compares the runtimes; a comparison or benchmark that is running is stopped. */
    fun compare(text: String): CompareJob {
        stop()
        return CompareJob(services, text).also {
            comparison = it
            it.start()
        }
    }

    /** Begins a benchmark; a comparison or benchmark that is running is stopped. */
    fun measure(request: BenchmarkRequest): BenchmarkJob {
        stop()
        val job = BenchmarkJob(services, request)
        benchmark = job
        job.changes.observe {
            val done = job.ending as? Ending.Done ?: return@observe
            if (report !== done.value.report) keep(done.value.report)
        }
        job.start()
        changes.announce()
        return job
    }

    /** Ends what is running: a translation that a person waits for comes first, and would spoil the figures. */
    fun stop() {
        comparison?.takeIf { it.ending == null }?.cancel()
        benchmark?.takeIf { it.ending == null }?.cancel()
    }

    /** Reads the report that an earlier process has kept, once; [changes] tells when it is there. */
    fun load() {
        if (hasRead) return
        hasRead = true
        services.files.run {
            val found = read() ?: return@run
            services.main.post {
                if (report != null) return@post
                report = found
                changes.announce()
            }
        }
    }

    private fun keep(report: MeasuredReport) {
        this.report = report
        hasRead = true
        changes.announce()
        val content = report.json.toString().toByteArray()
        services.files.run { write(content) }
    }

    private fun read(): MeasuredReport? = try {
        if (file.isThere()) MeasuredReport(JSONObject(String(file.readFully()))) else null
    } catch (error: IOException) {
        services.log.failure("kept benchmark", error)
        null
    } catch (error: JSONException) {
        services.log.failure("kept benchmark", error)
        null
    }

    private fun write(content: ByteArray) {
        try {
            val stream = file.startWrite()
            try {
                stream.write(content)
                file.finishWrite(stream)
            } catch (error: IOException) {
                file.failWrite(stream)
                throw error
            }
        } catch (error: IOException) {
            services.log.failure("benchmark to keep", error)
        }
    }
}
