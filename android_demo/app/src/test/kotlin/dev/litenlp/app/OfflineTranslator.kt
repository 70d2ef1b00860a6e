package dev.litenlp.app

import dev.litenlp.app.engine.OnnxEngineFactory
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.Translator
import java.io.File
import java.io.InputStream

/** Translates by a bundle that is installed in place of an older one, on whichever thread it is made and used. */
class OfflineTranslator(bundle: InputStream, folder: File, factory: EngineFactory = OnnxEngineFactory) : AutoCloseable {
    private val installed = BundleInstaller.install(bundle, folder, 512L shl 20, folder::getUsableSpace, { _, _ -> }, { false })
    private val engine = factory.open(installed, threads = 2)
    private val translator = Translator.of(installed, engine)

    init {
        for (other in BundleInstaller.listInstalled(folder)) if (other.directory != installed.directory) BundleInstaller.remove(other)
    }

    fun translate(text: String): String = translator.translate(text).text

    override fun close() = engine.close()
}
