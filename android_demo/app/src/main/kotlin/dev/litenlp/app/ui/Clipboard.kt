package dev.litenlp.app.ui

import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.ClipData
import android.content.ClipboardManager
import android.content.Context
import android.content.Intent
import android.os.Build
import android.widget.Toast
import dev.litenlp.app.R
import dev.litenlp.app.Services

/** Text to and from other apps. */
object Clipboard {
    /** Copies a text and says so, where the system does not. */
    fun copy(context: Context, text: String, said: Int) {
        try {
            manager(context).setPrimaryClip(ClipData.newPlainText(context.getString(R.string.app_name), text))
            if (Build.VERSION.SDK_INT < 33) say(context, said)
        } catch (error: RuntimeException) {
            // The system's limit for what goes between apps, which differs between devices.
            Services.of(context).log.failure("copying ${text.length} characters", error)
            say(context, R.string.problem_too_large)
        }
    }

    /** Copies the log for a report. */
    fun copyLog(context: Context) = copy(context, Services.of(context).report(), R.string.log_copied)

    /** The text on the clipboard, null if there is none. A file is none: its content may be of any size, and far away. */
    fun paste(context: Context): String? {
        val clip = try {
            manager(context).primaryClip
        } catch (error: RuntimeException) {
            Services.of(context).log.failure("pasting", error)
            null
        }
        return clip?.takeIf { it.itemCount > 0 }?.getItemAt(0)?.text?.toString()?.takeIf { it.isNotEmpty() }
    }

    /** Offers a text to other apps. */
    fun share(activity: Activity, text: String) {
        val send = Intent(Intent.ACTION_SEND).setType("text/plain").putExtra(Intent.EXTRA_TEXT, text)
        try {
            activity.startActivity(Intent.createChooser(send, null))
        } catch (error: ActivityNotFoundException) {
            Services.of(activity).log.failure("sharing", error)
            say(activity, R.string.no_app)
        } catch (error: RuntimeException) {
            Services.of(activity).log.failure("sharing ${text.length} characters", error)
            say(activity, R.string.problem_too_large)
        }
    }

    /** A short message over whatever is shown. */
    fun say(context: Context, message: Int) = Toast.makeText(context, message, Toast.LENGTH_LONG).show()

    private fun manager(context: Context) = context.getSystemService(ClipboardManager::class.java)
}
