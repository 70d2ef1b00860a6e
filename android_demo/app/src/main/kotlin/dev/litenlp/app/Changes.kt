package dev.litenlp.app

import android.os.Looper

/** Tells observers on the main thread that something may look different now. All calls are on the main thread. */
class Changes {
    private val observers = LinkedHashSet<() -> Unit>()

    fun observe(observer: () -> Unit) {
        requireMainThread()
        observers += observer
    }

    fun ignore(observer: () -> Unit) {
        observers -= observer
    }

    fun announce() {
        requireMainThread()
        // A copy: an observer may take itself off.
        for (observer in observers.toList()) observer()
    }
}

internal fun requireMainThread() =
    check(Looper.getMainLooper().isCurrentThread) { "expected the main thread, found ${Thread.currentThread().name}" }
