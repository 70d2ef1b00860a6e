package dev.litenlp.app

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.view.View
import dev.litenlp.app.ui.MainActivity
import dev.litenlp.app.ui.Screens
import org.junit.Assert.assertEquals
import org.robolectric.Shadows.shadowOf
import java.io.ByteArrayInputStream
import java.io.File
import java.io.InputStream

/** Fixture of the tests of models: imports them as a person does. */
abstract class ModelsTest : AppTest() {
    private val place = Uri.parse("content://org.example.files/document/7")
    protected val models get() = services.models
    protected val folder get() = File(app.noBackupFilesDir, "models")

    protected fun open(): MainActivity = launch().get().apply { show(Screens.MODELS) }

    /** Picks a file whose content is [stream] in the system's file picker. */
    protected fun MainActivity.pick(stream: () -> InputStream) {
        shadowOf(contentResolver).registerInputStreamSupplier(place) { stream() }
        click(R.id.import_model)
        val picker = shadowOf(this).nextStartedActivityForResult
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, picker.intent.action)
        shadowOf(this).receiveResult(picker.intent, Activity.RESULT_OK, Intent().setData(place))
    }

    protected fun MainActivity.import(content: ByteArray) {
        pick { ByteArrayInputStream(content) }
        await("end of the import") { services.installs.isIdle && models.installing == null && isEnabled(R.id.import_model) }
    }

    protected fun Activity.isEnabled(id: Int) = findViewById<View>(id).isEnabled
}
