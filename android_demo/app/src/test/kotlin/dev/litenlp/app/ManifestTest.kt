package dev.litenlp.app

import android.content.pm.ApplicationInfo
import android.content.pm.PackageManager
import org.junit.Assert.assertEquals
import org.junit.Assert.assertNull
import org.junit.Test
import org.xmlpull.v1.XmlPullParser

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

    @Test
    fun `what a person keeps moves to the next phone, and no text into the cloud`() {
        val included = LinkedHashMap<String, ArrayList<String>>()
        val rules = app.resources.getXml(R.xml.data_extraction_rules)
        while (rules.next() != XmlPullParser.END_DOCUMENT) {
            if (rules.eventType != XmlPullParser.START_TAG) continue
            if (rules.name == "include") {
                included.values.last() += rules.getAttributeValue(null, "path")
            } else if (rules.depth == 2) {
                included[rules.name] = ArrayList()
            }
        }
        val moved = listOf("settings.xml", "history.jsonl", "favourites.jsonl")
        assertEquals(mapOf("cloud-backup" to listOf("settings.xml"), "device-transfer" to moved), included)
    }
}
