package dev.litenlp.app

import dev.litenlp.app.measure.BenchmarkRequest
import dev.litenlp.app.ui.measure.HeadlessBenchmarkActivity
import dev.litenlp.core.Problem
import org.junit.Assert.assertEquals
import org.junit.Assert.assertTrue
import org.junit.Test
import java.io.File

/** Consistency of docs/android.md with the app. */
class DocsTest : AppTest() {
    private val repository = generateSequence(File("").absoluteFile) { it.parentFile }.first { File(it, "docs/android.md").isFile }
    private val page = File(repository, "docs/android.md").readText()

    @Test
    fun `every problem is explained with the sentence that the app shows`() {
        for (problem in Problem.values()) {
            val sentence = Sentences.about(app, problem)
            assertTrue("$problem: $sentence", "| $sentence |" in page)
        }
    }

    @Test
    fun `the code for other apps is code that works`() {
        val source = File(repository, "android_demo/app/src/test/kotlin/dev/litenlp/app/OfflineTranslator.kt").readText()
        val example = source.substring(source.indexOf("class OfflineTranslator"))
        assertTrue("expected the class as it stands in OfflineTranslator.kt", "```kotlin\n$example```" in page)
        val folder = File(app.noBackupFilesDir, "example")
        OfflineTranslator(TestBundles.zip().inputStream(), folder, onnx).use {
            assertEquals("Guten Morgen!\nWo ist der nächste Bahnhof?", it.translate("Good morning!\nWhere is the nearest train station?"))
        }
        assertEquals(0, onnx.openEngines.get())
        // The second time the bundle is there already: nothing is read behind its manifest.
        val beginning = TestBundles.zip().let { it.copyOf(it.size / 2) }
        OfflineTranslator(beginning.inputStream(), folder, onnx).use { assertEquals("Guten Morgen!", it.translate("Good morning!")) }
        val newer = TestBundles.zip(change = { it.getJSONObject("budget").put("target", "another") })
        val before = folder.list().orEmpty().single()
        OfflineTranslator(newer.inputStream(), folder, onnx).use { assertEquals("Guten Morgen!", it.translate("Good morning!")) }
        assertTrue("the older one made place", folder.list().orEmpty().single() != before)
    }

    @Test
    fun `the rules for other apps are those of this one`() {
        val rules = File(repository, "android_demo/tools/package/shrink.pro").readLines()
        val native = rules.dropWhile { it != "# Native code finds these by name." }.drop(1).takeWhile { "-keepclassmembers enum" !in it }
        assertEquals(native, page.lines().filter { it.startsWith("-keep") })
    }

    @Test
    fun `every picture is there`() {
        val names = Regex("\\]\\((images/[^)]+)\\)").findAll(page).map { it.groupValues[1] }.toList()
        assertTrue("$names", names.size >= 6)
        for (name in names) assertTrue(name, File(repository, "docs/$name").length() in 1..60_000)
    }

    @Test
    fun `the command for the benchmark names what there is`() {
        assertTrue("dev.litenlp.app/.ui.measure.HeadlessBenchmarkActivity" in page)
        assertTrue(HeadlessBenchmarkActivity::class.java.name == "dev.litenlp.app.ui.measure.HeadlessBenchmarkActivity")
        assertTrue(HeadlessBenchmarkActivity.TAG in page)
        for (key in BenchmarkRequest.KEYS + "out") assertTrue(key, "| `$key` |" in page)
    }
}
