package dev.litenlp.nativetests

import java.io.File

/** Prepares Android's libraries for `System.loadLibrary` on this machine; see `native/shim/host_loader.c`. */
object HostLoader {
    /** Folder of the libraries as they are in the APK. */
    private val libraries: File get() = File(property("litenlp.libraries"))

    /** ExecuTorch's first: it brings fbjni along, and the exceptions of both must be of one kind. */
    private val names = listOf("libexecutorch.so", "libonnxruntime.so", "liblitenlp_ort.so")

    private val opened by lazy {
        // Libraries of this machine need no help.
        if (System.getProperty("litenlp.loader") == null) return@lazy
        System.load(property("litenlp.loader"))
        for (name in names) open(File(libraries, name).path)?.let { throw UnsatisfiedLinkError(it) }
    }

    /** Opens all libraries, once. */
    fun openAll() = opened

    /** Opens the libraries that can be opened: those of a system that lacks some. */
    fun openPresent() {
        System.load(property("litenlp.loader"))
        for (name in names) open(File(libraries, name).path)
    }

    /** Opens a library without mixing its symbols with those of the process; returns what went wrong, or null. */
    @JvmStatic
    private external fun open(path: String): String?
}

/** A system property that the tests must be given. */
fun property(name: String): String = checkNotNull(System.getProperty(name)) { "expected the system property $name, found none" }
