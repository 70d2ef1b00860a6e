package dev.litenlp.app

import android.content.pm.ApplicationInfo
import android.content.pm.PackageManager
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Test

/** The manifest as it was linked. */
class ManifestTest : AppTest() {
    private val packageInfo get() = app.packageManager.getPackageInfo(
        app.packageName,
        PackageManager.GET_PERMISSIONS or PackageManager.GET_SERVICES or PackageManager.GET_PROVIDERS or PackageManager.GET_RECEIVERS,
    )

    @Test
    fun `asks for no permission at all`() {
        assertNull(packageInfo.requestedPermissions?.toList())
    }

    @Test
    fun `nothing but activities can be reached`() {
        assertNull(packageInfo.services?.toList())
        assertNull(packageInfo.receivers?.toList())
        assertNull(packageInfo.providers?.toList())
    }

    @Test
    fun `runs on the levels it says and from right to left`() {
        val info = checkNotNull(packageInfo.applicationInfo)
        assertEquals(26, info.minSdkVersion)
        assertEquals(35, info.targetSdkVersion)
        assertEquals(ApplicationInfo.FLAG_SUPPORTS_RTL, info.flags and ApplicationInfo.FLAG_SUPPORTS_RTL)
    }
}
