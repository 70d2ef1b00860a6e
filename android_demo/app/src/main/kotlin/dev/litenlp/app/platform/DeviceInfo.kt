package dev.litenlp.app.platform

import android.annotation.TargetApi
import android.app.ActivityManager
import android.content.Context
import android.os.Build
import dev.litenlp.core.metrics.BenchmarkDevice
import dev.litenlp.core.metrics.CpuInfo

/** This device, as a benchmark's report describes it. */
object DeviceInfo {
    fun describe(context: Context): BenchmarkDevice {
        val cpu = CpuInfo.read()
        val memory = ActivityManager.MemoryInfo()
        context.getSystemService(ActivityManager::class.java).getMemoryInfo(memory)
        return BenchmarkDevice(
            kind = "phone",
            name = "${Build.MANUFACTURER} ${Build.MODEL}",
            os = "Android ${Build.VERSION.RELEASE} (API ${Build.VERSION.SDK_INT})",
            abi = Build.SUPPORTED_ABIS.firstOrNull().orEmpty(),
            cpu = cpu.name.ifEmpty(::chip),
            cores = Runtime.getRuntime().availableProcessors(),
            cpuFeatures = cpu.features,
            memoryBytes = memory.totalMem,
        )
    }

    /** Many ARM kernels do not name the processor; newer systems do. */
    private fun chip(): String = if (Build.VERSION.SDK_INT >= 31) Api31.chip() else Build.HARDWARE

    @TargetApi(31)
    private object Api31 {
        fun chip(): String = "${Build.SOC_MANUFACTURER} ${Build.SOC_MODEL}"
    }
}
