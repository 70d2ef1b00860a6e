package dev.litenlp.nativetests

import dev.litenlp.app.engine.ExecuTorchEngineFactory
import dev.litenlp.app.engine.OnnxEngineFactory
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import java.io.File
import java.nio.file.Files
import org.junit.jupiter.api.Named

/** The bundle under test, installed as the app installs it. */
object TestBundle {
    private val folder: File by lazy {
        Files.createTempDirectory("native-tests").toFile().also { made ->
            Runtime.getRuntime().addShutdownHook(Thread { made.deleteRecursively() })
        }
    }

    /** The installed bundle. */
    val installed: InstalledBundle by lazy { install("litenlp.bundle", "models") }

    /** The same model in int8. */
    val int8: InstalledBundle by lazy { install("litenlp.int8-bundle", "int8-models") }

    private fun install(property: String, models: String): InstalledBundle = File(property(property)).inputStream().use {
        BundleInstaller.install(it, File(folder, models), Long.MAX_VALUE, { Long.MAX_VALUE }, { _, _ -> }, { false })
    }

    /** A copy of the bundle in which [change] has been made; not verified. */
    fun changed(name: String, change: (File) -> Unit): InstalledBundle {
        val copy = File(folder, name)
        installed.directory.copyRecursively(copy, overwrite = true)
        change(copy)
        return InstalledBundle.open(copy, verify = false)
    }
}

/** Both runtimes of the app. */
val factories: List<EngineFactory> = listOf(OnnxEngineFactory, ExecuTorchEngineFactory())

/** The runtimes with libraries at hand, named for reports. */
val runtimes: List<Named<EngineFactory>> =
    factories.filter { it.runtime in property("litenlp.runtimes").split(",") }.map { Named.of(it.runtime, it) }

/** Opens the bundle under test in a runtime. */
fun openEngine(factory: EngineFactory, threads: Int = 1): Engine {
    HostLoader.openAll()
    return factory.open(TestBundle.installed, threads)
}
