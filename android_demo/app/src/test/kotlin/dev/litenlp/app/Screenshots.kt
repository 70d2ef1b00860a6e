package dev.litenlp.app

import android.app.Activity
import android.graphics.Bitmap
import android.graphics.Canvas
import android.view.View
import java.io.ByteArrayOutputStream
import java.io.File

/** Draws what a window shows to PNG files, where the property `litenlp.screenshots` names a folder for them. */
object Screenshots {
    /** @return the picture, whether or not it was written to a file */
    fun draw(activity: Activity, name: String): Bitmap = draw(activity.window.decorView, name)

    fun draw(view: View, name: String): Bitmap {
        val picture = Bitmap.createBitmap(view.width, view.height, Bitmap.Config.ARGB_8888)
        view.draw(Canvas(picture))
        write(picture, name)
        return picture
    }

    /** Writes a picture under a name, if there is a folder for it. */
    fun write(picture: Bitmap, name: String) {
        val folder = System.getProperty("litenlp.screenshots") ?: return
        val content = ByteArrayOutputStream()
        picture.compress(Bitmap.CompressFormat.PNG, 100, content)
        val file = File(folder, "$name.png")
        file.parentFile?.mkdirs()
        file.writeBytes(content.toByteArray())
    }
}
