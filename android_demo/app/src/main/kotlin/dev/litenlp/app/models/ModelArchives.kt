package dev.litenlp.app.models

import android.content.res.AssetManager
import java.io.IOException
import java.io.InputStream

/** The bundles that came with the app. */
interface ModelArchives {
    /** Their names, the first is the default model. @throws IOException */
    fun names(): List<String>

    /** @throws IOException */
    fun open(name: String): InputStream
}

/** Bundles in the APK, under assets/models. */
class AssetArchives(private val assets: AssetManager) : ModelArchives {
    override fun names(): List<String> {
        if (ORDER !in assets.list(FOLDER).orEmpty()) return emptyList()
        return assets.open("$FOLDER/$ORDER").bufferedReader().use { it.readLines() }
    }

    override fun open(name: String): InputStream = assets.open("$FOLDER/$name", AssetManager.ACCESS_STREAMING)

    private companion object {
        const val FOLDER = "models"

        /** The names of the bundles, one in a line; assets are listed by name alone. */
        const val ORDER = "order.txt"
    }
}
