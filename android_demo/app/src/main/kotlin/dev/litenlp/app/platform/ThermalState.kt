package dev.litenlp.app.platform

import android.annotation.TargetApi
import android.content.Context
import android.os.Build
import android.os.PowerManager
import dev.litenlp.core.metrics.ThermalProbe

/** Whether the device is slowed down because it is hot. */
object ThermalState {
    /** Android's names in the order of its numbers, lower-case. */
    private val NAMES = listOf("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")

    /** Asks the system; null before API 29, where it does not tell. */
    fun probe(context: Context): ThermalProbe? {
        if (Build.VERSION.SDK_INT < 29) return null
        val power = context.getSystemService(PowerManager::class.java)
        return ThermalProbe { name(Api29.status(power)) }
    }

    internal fun name(status: Int): String = NAMES.getOrElse(status) { "status $status" }

    @TargetApi(29)
    private object Api29 {
        fun status(power: PowerManager): Int = power.currentThermalStatus
    }
}
