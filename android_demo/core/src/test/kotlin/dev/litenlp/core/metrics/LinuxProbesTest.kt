package dev.litenlp.core.metrics

import java.io.File
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test

class LinuxProbesTest {
    @Test
    fun residentMemoryIsReadFromTheStatus() {
        assertEquals(12_345L * 1024, ProcessMemory.residentBytes("Name:\tjava\nVmHWM:\t   99999 kB\nVmRSS:\t   12345 kB\nThreads:\t3\n"))
        assertEquals(0, ProcessMemory.residentBytes("Name:\tjava\n"))
        assertEquals(0, ProcessMemory.residentBytes("VmRSS:\tmuch\n"))
        assertEquals(0, ProcessMemory.residentBytes(""))
    }

    @Test
    fun thisProcessUsesMemory() {
        assumeTrue(File("/proc/self/status").exists(), "a system without /proc")
        assertTrue(ProcessMemory.residentBytes() in 1_000_000L..100_000_000_000L)
    }

    @Test
    fun processorOfAPhone() {
        val text = "processor\t: 0\nBogoMIPS\t: 38.40\nFeatures\t: fp asimd  aes asimddp\nCPU part\t: 0xd05\n\n" +
            "processor\t: 1\nFeatures\t: fp asimd aes asimddp \n\nHardware\t: Qualcomm: SM8250\n"
        assertEquals(CpuInfo("Qualcomm: SM8250", listOf("aes", "asimd", "asimddp", "fp")), CpuInfo.parse(text))
    }

    @Test
    fun processorOfAComputer() {
        val text = "processor\t: 0\nmodel name\t: Some CPU @ 2.00GHz\nflags\t\t: sse avx2 fma\nbugs\t\t: none\n"
        assertEquals(CpuInfo("Some CPU @ 2.00GHz", listOf("avx2", "fma", "sse")), CpuInfo.parse(text))
    }

    @Test
    fun aSystemThatDoesNotTell() {
        assertEquals(CpuInfo("", emptyList()), CpuInfo.parse(""))
        assertEquals(CpuInfo("", emptyList()), CpuInfo.parse("no colon here\nmodel name\t:\n"))
    }
}
