package dev.litenlp.app

import java.util.concurrent.LinkedBlockingQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/**
 * One named thread that runs tasks one after the other. It ends when it had nothing to do for half a minute and is
 * started again for the next task.
 *
 * @param onError told about what a task throws, which is a defect of the task: the thread goes on
 */
class SerialThread(val name: String, private val onError: (Throwable) -> Unit) {
    // The executor's own figures leave out a task that its thread has taken and not yet begun.
    private val pending = AtomicInteger()
    private val executor = ThreadPoolExecutor(1, 1, IDLE_SECONDS, TimeUnit.SECONDS, LinkedBlockingQueue()) { task ->
        Thread(task, name)
    }.apply {
        allowCoreThreadTimeOut(true)
        // After stop() nobody waits for anything any more.
        setRejectedExecutionHandler { _, _ -> pending.decrementAndGet() }
    }

    /** Runs [task] after all that were given before. */
    fun run(task: () -> Unit) {
        pending.incrementAndGet()
        executor.execute {
            try {
                task()
            } catch (error: Exception) {
                onError(error)
            } finally {
                pending.decrementAndGet()
            }
        }
    }

    /** Whether nothing runs or waits. For tests. */
    val isIdle: Boolean get() = pending.get() == 0

    /** Runs no further task, interrupts the one that runs, and waits for its end. For tests. */
    fun stop() {
        pending.addAndGet(-executor.shutdownNow().size)
        executor.awaitTermination(IDLE_SECONDS, TimeUnit.SECONDS)
    }

    private companion object {
        const val IDLE_SECONDS = 30L
    }
}
