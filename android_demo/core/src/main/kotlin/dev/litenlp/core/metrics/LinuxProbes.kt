package dev.litenlp.core.metrics

import java.io.File
import java.io.IOException

/** This process's memory as Linux and Android tell it, in `/proc/self/status`; 0 where the system does not. */
object ProcessMemory : MemoryProbe {
    private val status = File("/proc/self/status")

    override fun residentBytes(): Long = residentBytes(readOrEmpty(status))

    internal fun residentBytes(status: String): Long {
        val line = status.lineSequence().firstOrNull { it.startsWith("VmRSS:") } ?: return 0
        val kilobytes = line.removePrefix("VmRSS:").removeSuffix("kB").trim().toLongOrNull() ?: return 0
        return kilobytes * 1024
    }
}

/**
 * The processor as Linux and Android tell it, in `/proc/cpuinfo`.
 *
 * @property name Empty if the system does not tell; many phones do not.
 * @property features What the processor reports, such as `asimddp`, sorted.
 */
data class CpuInfo(val name: String, val features: List<String>) {
    companion object {
        /** Of this device. */
        fun read(): CpuInfo = parse(readOrEmpty(File("/proc/cpuinfo")))

        /** Reads the file's [text]; of processors that differ the last counts. */
        fun parse(text: String): CpuInfo {
            val fields = text.lineSequence().filter { ':' in it }.associate { line ->
                line.substringBefore(':').trim() to line.substringAfter(':').trim()
            }
            val name = fields["model name"].orEmpty().ifEmpty { fields["Hardware"].orEmpty() }
            val features = fields["flags"].orEmpty().ifEmpty { fields["Features"].orEmpty() }
            return CpuInfo(name, features.split(' ').filter { it.isNotEmpty() }.sorted())
        }
    }
}

private fun readOrEmpty(file: File): String = try {
    file.readText()
} catch (_: IOException) {
    ""
}
