package dev.litenlp.nativetests

import dev.litenlp.app.engine.ExecuTorchEngineFactory
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.SearchOptions
import dev.litenlp.core.search.search
import java.io.File
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.pytorch.executorch.ExecuTorchRuntime
import org.pytorch.executorch.Module

/** Of the lines: another release's products of small integers fall to the other side of a border now and then. */
private const val AGREEMENT = 0.8

/** The model in int8 on the app's libraries, beside what Python's runtimes make of it. */
class Int8Test {
    /** Sources and translations, written by `tools/testing/int8.py`. */
    private val vectors = JSONObject(File(property("litenlp.int8-vectors")).readText())

    @OnBothRuntimes
    fun `most lines have the tokens of the same runtime in Python`(factory: EngineFactory) {
        val step = property("litenlp.every-line").toInt()
        val sources = readLists(vectors.getJSONArray("sources"))
        val expected = readLists(vectors.getJSONObject("translations").getJSONArray(factory.runtime))
        val places = sources.indices.filter { it % step == 0 }
        assertTrue(places.size >= 5, "${places.size} lines")
        HostLoader.openAll()
        factory.open(TestBundle.int8, 1).use { engine ->
            assertEquals(vectors.getString("precision"), TestBundle.int8.manifest.precision)
            val found = places.map { search(engine, listOf(sources[it].toIntArray()), SearchOptions())[0].tokens.asList() }
            val same = places.indices.count { found[it] == expected[places[it]] }
            println("${TestBundle.int8.manifest.precision}, ${factory.runtime}: $same of ${places.size} lines have Python's tokens")
            assertTrue(same >= AGREEMENT * places.size, "${factory.runtime}: $same of ${places.size} lines have Python's tokens")
        }
    }

    @Test
    fun `what the program asks for is in the library`() {
        HostLoader.openAll()
        System.loadLibrary("executorch")
        val wanted = ProgramNames(vectors.getJSONObject("operators"))
        for (method in wanted.methods) {
            assertEquals(emptyList<String>(), wanted.missing("operators", method, ExecuTorchRuntime.getRegisteredOps()), method)
            assertEquals(emptyList<String>(), wanted.missing("backends", method, ExecuTorchRuntime.getRegisteredBackends()), method)
        }
        val program = TestBundle.int8.file(checkNotNull(TestBundle.int8.manifest.executorch).program)
        val module = Module.load(program.path, Module.LOAD_MODE_MMAP, 1)
        assertEquals(wanted.methods, module.methods.toSet())
        // The app's engines run the others; a program has this one for beams and batches in Python.
        for (method in module.methods) module.loadMethod(method)
        module.destroy()
    }

    @Test
    fun `a step has the same best word alone and beside another row`() {
        HostLoader.openAll()
        ExecuTorchEngineFactory().open(TestBundle.int8, 1).use { engine ->
            val source = readLists(vectors.getJSONArray("sources"))[0].toIntArray()
            val alone = engine.start(listOf(source), 2).use { it.step(intArrayOf(1)).copyOf(engine.vocabSize) }
            val beside = engine.start(listOf(source, source), 2).use { it.step(intArrayOf(1, 1)).copyOf(engine.vocabSize) }
            val largest = alone.indices.maxBy { alone[it] }
            assertEquals(largest, beside.indices.maxBy { beside[it] })
        }
    }
}
