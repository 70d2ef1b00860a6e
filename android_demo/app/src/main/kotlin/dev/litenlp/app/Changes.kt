package dev.litenlp.app

import android.os.Looper

/** Notifies observers that displayed state may have changed. For the main thread only. */
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
