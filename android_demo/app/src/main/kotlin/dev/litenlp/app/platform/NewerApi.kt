package dev.litenlp.app.platform

import android.annotation.TargetApi
import android.app.Activity
import android.os.Build
import android.view.View
import android.view.WindowInsets
import android.window.OnBackInvokedCallback
import android.window.OnBackInvokedDispatcher

/** Space that the system takes at the edges of a window, in pixels. */
class Edges(val left: Int, val top: Int, val right: Int, val bottom: Int, val isKeyboardShown: Boolean)

/** Calls of API levels above the oldest supported one, each behind a check of the level; nothing else makes such calls. */
object NewerApi {
    /**
     * Lays the window out behind the system's bars and tells [listener] what they cover, now and whenever it changes.
     * Before API 30 the system keeps the content between its bars by itself.
     */
    fun drawEdgeToEdge(activity: Activity, root: View, listener: (Edges) -> Unit) {
        if (Build.VERSION.SDK_INT >= 30) Api30.drawEdgeToEdge(activity, root, listener)
    }

    /** Names a region for TalkBack, which says it when the region's content changes. */
    fun setPaneTitle(view: View, title: CharSequence) {
        if (Build.VERSION.SDK_INT >= 28) Api28.setPaneTitle(view, title)
    }

    /** Handles the system's back gesture, until the returned function is called; null where `onBackPressed` is called instead. */
    fun takeBack(activity: Activity, onBack: () -> Unit): (() -> Unit)? =
        if (Build.VERSION.SDK_INT >= 33) Api33.takeBack(activity, onBack) else null

    @TargetApi(28)
    private object Api28 {
        fun setPaneTitle(view: View, title: CharSequence) {
            view.accessibilityPaneTitle = title
        }
    }

    @TargetApi(30)
    private object Api30 {
        fun drawEdgeToEdge(activity: Activity, root: View, listener: (Edges) -> Unit) {
            // The default since Android 15; not so before.
            @Suppress("DEPRECATION")
            activity.window.setDecorFitsSystemWindows(false)
            root.setOnApplyWindowInsetsListener { _, insets ->
                val kinds = WindowInsets.Type.systemBars() or WindowInsets.Type.displayCutout() or WindowInsets.Type.ime()
                val taken = insets.getInsets(kinds)
                listener(Edges(taken.left, taken.top, taken.right, taken.bottom, insets.isVisible(WindowInsets.Type.ime())))
                WindowInsets.CONSUMED
            }
        }
    }

    @TargetApi(33)
    private object Api33 {
        fun takeBack(activity: Activity, onBack: () -> Unit): () -> Unit {
            val callback = OnBackInvokedCallback { onBack() }
            val dispatcher = activity.onBackInvokedDispatcher
            dispatcher.registerOnBackInvokedCallback(OnBackInvokedDispatcher.PRIORITY_DEFAULT, callback)
            return { dispatcher.unregisterOnBackInvokedCallback(callback) }
        }
    }
}
