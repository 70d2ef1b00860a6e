package dev.litenlp.core.metrics

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.search.ModelEngine
import java.io.File
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.io.TempDir

/** The benchmark on engines whose every millisecond and byte is decided here. */
class BenchmarkTest {
    @TempDir
    lateinit var directory: File
    private lateinit var bundle: InstalledBundle

    private var nowNs = 0L
    private var memoryBytes = 1_000L
    private var openEngines = 0
    private var mostOpen = 0
    private val sources = listOf(intArrayOf(3, 4, 5), intArrayOf(6), intArrayOf(7, 8))

    @BeforeEach
    fun install() {
        bundle = installedBundle(directory)
    }

    private fun spend(ms: Int) {
        nowNs += ms * 1_000_000L
    }

    /** Opening takes 100 ms the first time and 10 ms afterwards; encoding 3 ms; a step 12 ms divided by the threads. */
    private inner class FakeFactory(
        override val runtime: String,
        private val makeEngine: () -> Engine = { backwards() },
        private val onOpen: (threads: Int) -> Unit = {},
        private val onStep: (steps: Int) -> Unit = {},
    ) : EngineFactory {
        val threads = ArrayList<Int>()

        override fun open(bundle: InstalledBundle, threads: Int): Engine {
            assertSame(this@BenchmarkTest.bundle, bundle)
            onOpen(threads)
            spend(if (this.threads.isEmpty()) 100 else 10)
            this.threads += threads
            mostOpen = maxOf(mostOpen, ++openEngines)
            memoryBytes += 500
            return FakeEngine(makeEngine(), threads, onStep)
        }
    }

    private inner class FakeEngine(private val engine: Engine, private val threads: Int, private val onStep: (Int) -> Unit) :
        Engine by engine {
        override val runtime get() = "fake"
        override val version get() = "7.1"
        private var steps = 0

        override fun start(sources: List<IntArray>, capacity: Int): Decoding {
            spend(3)
            memoryBytes += 20
            val decoding = engine.start(sources, capacity)
            return object : Decoding by decoding {
                override fun step(tokens: IntArray): FloatArray {
                    spend(12 / threads)
                    onStep(++steps)
                    return decoding.step(tokens)
                }

                override fun close() {
                    memoryBytes -= 20
                    decoding.close()
                }
            }
        }

        override fun close() {
            openEngines--
            memoryBytes -= 500
            engine.close()
        }
    }

    private fun benchmark(plan: BenchmarkPlan, thermal: ThermalProbe? = null) =
        Benchmark(bundle, plan, { memoryBytes }, thermal) { nowNs }

    @Test
    fun aRowSaysWhatHappened() {
        val states = listOf("none", "light").iterator()
        val factory = FakeFactory("onnx")
        val outcome = benchmark(BenchmarkPlan(sources, listOf(1), warmup = 2, repeats = 3)) { states.next() }.run(listOf(factory))
        val row = outcome.rows.single()
        assertTrue(outcome.failures.isEmpty())
        assertEquals("fake", row.runtime)
        assertEquals("7.1", row.version)
        assertEquals(1, row.threads)
        assertEquals("fp32", row.precision)
        assertEquals(100.0, row.loadColdMs)
        assertEquals(10.0, row.loadWarmMs)
        assertEquals(Summary(15.0, 15.0, 15.0, 15.0, 15.0), row.firstTokenMs)
        // Steps are the tokens and the end mark: 4, 2, 3.
        assertEquals(Summary.of(doubleArrayOf(51.0, 27.0, 39.0, 51.0, 27.0, 39.0, 51.0, 27.0, 39.0)), row.sentenceMs)
        assertEquals(6, row.targetTokens)
        assertEquals(6 * 1000.0 / (51 + 27 + 39), row.tokensPerSecond, 1e-9)
        val work = GraphWork.fromJson(JSONObject(SHIPPED_WORK))
        val macs = work.macs(4, 16, 4) + work.macs(2, 12, 2) + work.macs(3, 14, 3)
        assertEquals(macs, row.macs)
        assertEquals(macs / ((51 + 27 + 39) * 1e6), row.gmacsPerSecond, 1e-9)
        assertEquals(MemoryBytes(before = 1_000, loaded = 1_500, peak = 1_520), row.memory)
        assertEquals(ThermalStates("none", "light"), row.thermal)
        assertEquals(tokensSha256(listOf(intArrayOf(5, 4, 3), intArrayOf(6), intArrayOf(8, 7))), row.tokensSha256)
        assertEquals(listOf(1, 1), factory.threads)
        assertEquals(0, openEngines)
    }

    @Test
    fun everyRuntimeIsSweptAndOneEngineIsOpenAtATime() {
        val factories = listOf(FakeFactory("onnx"), FakeFactory("executorch"))
        val rows = benchmark(BenchmarkPlan(sources, listOf(1, 2, 4), warmup = 0, repeats = 1)).run(factories).rows
        assertEquals(listOf(1, 2, 4, 1, 2, 4), rows.map { it.threads })
        assertEquals(listOf(15.0, 9.0, 6.0), rows.take(3).map { it.firstTokenMs.p50 })
        assertEquals(List(6) { 100.0 }, rows.map { it.loadColdMs })
        assertEquals(1, rows.map { it.tokensSha256 }.distinct().size)
        assertNull(rows[0].thermal)
        assertEquals(1, mostOpen)
        assertEquals(0, openEngines)
    }

    @Test
    fun whatARuntimeKeepsIsMemoryOfAllItsRows() {
        // Opened for the first time it takes what it never gives back: its library.
        fun keeping(name: String): FakeFactory {
            var isLoaded = false
            return FakeFactory(name, onOpen = {
                if (!isLoaded) memoryBytes += 300
                isLoaded = true
            })
        }
        val plan = BenchmarkPlan(sources, listOf(1, 2), warmup = 1, repeats = 1)
        val rows = benchmark(plan).run(listOf(keeping("onnx"), keeping("executorch"))).rows
        val first = MemoryBytes(before = 1_000, loaded = 1_800, peak = 1_820)
        val second = MemoryBytes(before = 1_300, loaded = 2_100, peak = 2_120)
        assertEquals(listOf(first, first, second, second), rows.map { it.memory })
    }

    @Test
    fun aRuntimeThatFailsDoesNotStopTheOthers() {
        val refused = FakeFactory("executorch", onOpen = { throw LiteNlpException(Problem.RUNTIME_MISSING, "none here") })
        val failing = FakeFactory(
            "onnx",
            onStep = { throw LiteNlpException(Problem.RUNTIME_FAILED, "broken") },
        )
        val greedy = FakeFactory("other", onOpen = { if (it == 2) throw OutOfMemoryError("heap") })
        val outcome = benchmark(BenchmarkPlan(sources, listOf(1, 2))).run(listOf(refused, failing, greedy))
        assertEquals(listOf(1), outcome.rows.map { it.threads })
        assertEquals(
            listOf("executorch 1 RUNTIME_MISSING", "onnx 1 RUNTIME_FAILED", "other 2 OUT_OF_MEMORY"),
            outcome.failures.map { "${it.runtime} ${it.threads} ${it.error.problem}" },
        )
        assertEquals(0, openEngines)
    }

    @Test
    fun tokensThatChangeFromRepeatToRepeatAreAFailure() {
        var count = 0
        val engines = FakeFactory("onnx", onStep = { count = it }, makeEngine = {
            ModelEngine(12, 40, 16) { _, produced ->
                FloatArray(12).also { it[if (produced.isNotEmpty()) 2 else 3 + count / 5 % 2] = 9f }
            }
        })
        val outcome = benchmark(BenchmarkPlan(listOf(intArrayOf(3)), listOf(1), warmup = 0, repeats = 4)).run(listOf(engines))
        assertTrue(outcome.rows.isEmpty())
        assertEquals(
            "onnx: sentence 1: expected the same tokens every time, found [3] and [4]",
            outcome.failures.single().error.message,
        )
    }

    @Test
    fun progressReachesItsTotalWhateverFails() {
        val told = ArrayList<String>()
        val listener = object : BenchmarkListener {
            override fun onProgress(done: Int, total: Int, runtime: String, threads: Int) {
                told += "$done/$total $runtime $threads"
            }

            override fun isCancelled() = false
        }
        val refused = FakeFactory("executorch", onOpen = { throw LiteNlpException(Problem.RUNTIME_MISSING, "none here") })
        benchmark(BenchmarkPlan(sources, listOf(1, 2), warmup = 1, repeats = 1)).run(listOf(refused, FakeFactory("onnx")), listener)
        assertEquals("0/24 executorch 1", told.first())
        assertEquals("12/24 onnx 1", told[1])
        assertEquals("24/24 onnx 2", told.last())
        val done = told.map { it.substringBefore('/').toInt() }
        assertEquals(done.sorted(), done)
    }

    @Test
    fun cancellingEndsAtTheNextStepAndClosesTheEngine() {
        for (limit in listOf(0, 1, 7, 40)) {
            var steps = 0
            val listener = object : BenchmarkListener {
                override fun onProgress(done: Int, total: Int, runtime: String, threads: Int) = Unit

                override fun isCancelled() = steps >= limit
            }
            val error = assertThrows(LiteNlpException::class.java) {
                benchmark(BenchmarkPlan(sources, listOf(1, 2))).run(listOf(FakeFactory("onnx", onStep = { steps++ })), listener)
            }
            assertEquals(Problem.CANCELLED, error.problem)
            assertEquals(limit, steps)
            assertEquals(0, openEngines)
        }
    }

    @Test
    fun plansOutOfRange() {
        val wrong = mapOf<String, () -> BenchmarkPlan>(
            "benchmark: expected at least one sentence, found none" to { BenchmarkPlan(emptyList(), listOf(1)) },
            "threads: expected counts of at least 1, found []" to { BenchmarkPlan(sources, emptyList()) },
            "threads: expected counts of at least 1, found [1, 0]" to { BenchmarkPlan(sources, listOf(1, 0)) },
            "warmup: expected at least 0, found -1" to { BenchmarkPlan(sources, listOf(1), warmup = -1) },
            "repeats: expected at least 1, found 0" to { BenchmarkPlan(sources, listOf(1), repeats = 0) },
        )
        for ((message, make) in wrong) {
            assertEquals(message, assertThrows(IllegalArgumentException::class.java) { make() }.message)
        }
    }

    @Test
    fun tokensAreHashedAsDecimalText() {
        // printf '3 14\n\n15\n' | sha256sum
        val expected = "528cb08f430c7cf80b5416f81e532854bb6219934aa4d8d65308d33c19e5a76a"
        assertEquals(expected, tokensSha256(listOf(intArrayOf(3, 14), intArrayOf(), intArrayOf(15))))
        assertNotEquals(expected, tokensSha256(listOf(intArrayOf(3), intArrayOf(14), intArrayOf(15))))
    }
}
