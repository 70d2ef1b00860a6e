package dev.litenlp.app

import android.content.Context
import android.content.SharedPreferences
import android.content.SharedPreferences.OnSharedPreferenceChangeListener

/** The user's settings. Thread-safe; an invalid value reads as the default. */
class Preferences(context: Context, processors: Int = Runtime.getRuntime().availableProcessors()) {
    private val stored: SharedPreferences = context.getSharedPreferences("settings", Context.MODE_PRIVATE)

    /** Threads that may be chosen. */
    val threadChoices: IntRange = 1..processors.coerceIn(1, MAX_THREADS)

    /** Threads of a runtime. Half the cores unless chosen: the slow half of a phone's cores holds the fast one up. */
    var threads: Int
        get() = stored.getInt(THREADS, 0).takeIf { it in threadChoices } ?: (threadChoices.last / 2).coerceIn(1, 4)
        set(value) = put { putInt(THREADS, value) }

    /** "onnx", "executorch", or null for whichever works first. */
    var runtime: String?
        get() = stored.getString(RUNTIME, null)
        set(value) = put { putString(RUNTIME, value) }

    /** Hypotheses of the search: 1 is the fast choice, 4 the careful one. */
    var beamSize: Int
        get() = stored.getInt(BEAM, 1).takeIf { it in BEAM_CHOICES } ?: 1
        set(value) = put { putInt(BEAM, value) }

    /** Whether translations are kept. */
    var keepsHistory: Boolean
        get() = stored.getBoolean(HISTORY, true)
        set(value) = put { putBoolean(HISTORY, value) }

    /** Whether a text is translated when a person pauses, without being asked. */
    var translatesWhileTyping: Boolean
        get() = stored.getBoolean(TYPING, true)
        set(value) = put { putBoolean(TYPING, value) }

    /** Whether time, tokens and Mult-Adds are shown with a translation. */
    var showsFigures: Boolean
        get() = stored.getBoolean(FIGURES, false)
        set(value) = put { putBoolean(FIGURES, value) }

    /** Folder name of the model in use, null for the first there is. */
    var model: String?
        get() = stored.getString(MODEL, null)
        set(value) = put { putString(MODEL, value) }

    /** For each bundled archive the app version it was installed from and its folder: "version folder". */
    fun bundledInstall(archive: String): String? = stored.getString("$BUNDLED$archive", null)

    fun setBundledInstall(archive: String, value: String) = put { putString("$BUNDLED$archive", value) }

    /** Calls [listener] on the main thread after a change; it must be held by its owner, since this holds it weakly. */
    fun observe(listener: OnSharedPreferenceChangeListener) = stored.registerOnSharedPreferenceChangeListener(listener)

    fun ignore(listener: OnSharedPreferenceChangeListener) = stored.unregisterOnSharedPreferenceChangeListener(listener)

    private fun put(change: SharedPreferences.Editor.() -> Unit) = stored.edit().apply(change).apply()

    companion object {
        const val MAX_THREADS = 8
        val BEAM_CHOICES = listOf(1, 4)

        private const val THREADS = "threads"
        private const val RUNTIME = "runtime"
        private const val BEAM = "beam"
        private const val HISTORY = "history"
        private const val TYPING = "typing"
        private const val FIGURES = "figures"
        private const val MODEL = "model"
        private const val BUNDLED = "bundled."
    }
}
