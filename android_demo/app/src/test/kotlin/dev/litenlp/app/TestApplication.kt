package dev.litenlp.app

import dev.litenlp.app.models.ModelArchives
import dev.litenlp.core.engine.EngineFactory
import java.io.File
import java.io.InputStream

/** The app with engines and models that a test chooses. */
class TestApplication : LiteNlpApplication() {
    /** Until a test says more there is nothing. */
    override fun createServices(): Services = Services(this, emptyList(), Archives(emptyMap()))

    /** Begins as a new process does: with nothing in memory and what is in the files. */
    fun restart(
        factories: List<EngineFactory>,
        archives: Map<String, () -> InputStream>,
        freeBytes: (File) -> Long = { 1L shl 40 },
        appVersion: String = "1",
    ): Services = restart(factories, Archives(archives), freeBytes, appVersion)

    /** The same with archives of any kind. */
    fun restart(
        factories: List<EngineFactory>,
        archives: ModelArchives,
        freeBytes: (File) -> Long = { 1L shl 40 },
        appVersion: String = "1",
    ): Services {
        services.inference.stop()
        services.installs.stop()
        services.files.stop()
        begin(Services(this, factories, archives, freeBytes, appVersion))
        return services
    }

    private class Archives(private val known: Map<String, () -> InputStream>) : ModelArchives {
        override fun names(): List<String> = known.keys.toList()
        override fun open(name: String): InputStream = known.getValue(name)()
    }
}
