package dev.litenlp.app.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.ElementType
import dev.litenlp.core.bundle.ExecuTorchEntry
import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.Origin
import dev.litenlp.core.bundle.RuntimeKind
import dev.litenlp.core.bundle.StateTensor
import dev.litenlp.core.engine.BundleDecoding
import dev.litenlp.core.engine.BundleEngine
import dev.litenlp.core.engine.Engine
import dev.litenlp.core.engine.EngineFactory
import dev.litenlp.core.engine.SourceBatch
import org.pytorch.executorch.EValue
import org.pytorch.executorch.ExecutorchRuntimeException
import org.pytorch.executorch.Module

private const val ENCODE = "encode"
private const val DECODE_STEP = "decode_step"
private const val DECODE_IN_PLACE = "decode_in_place"

/** The end of ExecuTorch's log has the reason of a failure. */
private const val LOG_LINES = 8

/**
 * Opens bundles in the ExecuTorch that comes with the app.
 *
 * @param version Of that library, which cannot tell.
 */
class ExecuTorchEngineFactory(private val version: String = "1.3.1") : EngineFactory {
    override val runtime: String get() = RuntimeKind.EXECUTORCH.key

    override fun open(bundle: InstalledBundle, threads: Int): Engine {
        require(threads >= 1) { "threads: expected at least 1, found $threads" }
        val entry = bundle.manifest.executorch
            ?: throw LiteNlpException(Problem.RUNTIME_MISSING, "${bundle.directory}: expected an ExecuTorch program, found none")
        return try {
            // Before anything else that uses fbjni: each has a C++ runtime, and exceptions must be those of this library.
            System.loadLibrary("executorch")
            load(bundle, entry, threads)
        } catch (error: LinkageError) {
            val found = "found none that can be loaded: ${error.message}"
            throw LiteNlpException(Problem.RUNTIME_MISSING, "expected the library of ExecuTorch, $found", error)
        }
    }

    private fun load(bundle: InstalledBundle, entry: ExecuTorchEntry, threads: Int): Engine {
        val program = bundle.file(entry.program)
        return reporting(Problem.RUNTIME_REFUSED, "ExecuTorch does not take the program $program") {
            allowBoolTensors()
            val module = Module.load(program.path, Module.LOAD_MODE_MMAP, threads)
            try {
                module.loadMethod(ENCODE)
                module.loadMethod(DECODE_STEP)
                if (entry.inPlace) module.loadMethod(DECODE_IN_PLACE)
                ExecuTorchEngine(bundle.manifest, module, version, entry.inPlace).also { it.tryOut() }
            } catch (error: Throwable) {
                module.destroy()
                throw error
            }
        }
    }
}

/** Runs [action]; what ExecuTorch throws, whose classes have only [RuntimeException] in common, becomes a [LiteNlpException]. */
private inline fun <T> reporting(problem: Problem, what: String, action: () -> T): T = try {
    action()
} catch (error: RuntimeException) {
    val code = (error as? ExecutorchRuntimeException)?.errorCode
    val noMemory = code == ExecutorchRuntimeException.MEMORY_ALLOCATION_FAILED ||
        code == ExecutorchRuntimeException.OUT_OF_RESOURCES ||
        code == ExecutorchRuntimeException.DELEGATE_MEMORY_ALLOCATION_FAILED
    val log = Module.readLogBufferStatic().orEmpty().takeLast(LOG_LINES).joinToString("\n")
    throw LiteNlpException(if (noMemory) Problem.OUT_OF_MEMORY else problem, "$what: ${error.message}\n$log", error)
} catch (error: OutOfMemoryError) {
    throw LiteNlpException(Problem.OUT_OF_MEMORY, "$what: ${error.message}", error)
}

private class ExecuTorchEngine(
    manifest: Manifest,
    private val module: Module,
    override val version: String,
    inPlace: Boolean,
) : BundleEngine(manifest) {
    private val resident = if (inPlace) ResidentState(module) else null

    override val runtime: String get() = RuntimeKind.EXECUTORCH.key

    /** One row, and two, which another method takes where one row's state stays in the program. */
    override fun translate(source: IntArray, token: Int, steps: Int) {
        super.translate(source, token, steps)
        if (resident == null) return
        start(listOf(source, source), steps).use { decoding -> repeat(steps) { decoding.step(intArrayOf(token, token)) } }
    }

    override fun encode(batch: SourceBatch, capacity: Int): BundleDecoding {
        val what = "ExecuTorch failed on $ENCODE with ${batch.rows} rows of ${batch.length} tokens"
        val state = reporting(Problem.RUNTIME_FAILED, what) { makeState(batch, capacity) }
        return ExecuTorchDecoding(manifest, module, state, batch.rows, capacity, resident)
    }

    /** The decoder's state tensors in the manifest's order. */
    private fun makeState(batch: SourceBatch, capacity: Int): List<RowBuffer> {
        val tokens = RowBuffer.ofLongs(batch.tokens, batch.rows)
        val mask = RowBuffer.ofBooleans(batch.mask, batch.rows)
        val state = manifest.state.map { tensor ->
            if (tensor.origin == Origin.SRC_MASK) return@map RowBuffer.ofBooleans(batch.mask, batch.rows)
            val sizes = tensor.shape.drop(1).map { it.resolve(batch.rows, batch.length, capacity) }
            RowBuffer(tensor.type, sizes, batch.rows)
        }
        val encoded = state.filterIndexed { index, _ -> manifest.state[index].origin == Origin.ENCODE }
        for (part in parts(batch.rows, manifest.bounds.executorchSources)) {
            val outputs = module.execute(ENCODE, tokens.view(part).value, mask.view(part).value)
            checkCount(ENCODE, outputs, encoded.size)
            encoded.forEachIndexed { index, buffer -> buffer.view(part).read(outputs[index].toTensor()) }
        }
        return state
    }

    override fun unload() = module.destroy()
}

/** The rows of a batch in parts of at most [largest]: what one call takes. */
private fun parts(rows: Int, largest: Int): List<IntRange> =
    (0 until rows step largest).map { it until minOf(it + largest, rows) }

private fun checkCount(method: String, outputs: Array<EValue>, expected: Int) =
    check(outputs.size == expected) { "$method: expected $expected outputs, found ${outputs.size}" }

/** The changing state of one row in the program's own memory, which one decoding has at a time. */
private class ResidentState(private val module: Module) {
    private val token = RowBuffer(ElementType.INT64, emptyList(), 1).view(0..0)
    private val position = RowBuffer(ElementType.INT64, emptyList(), 1).view(0..0)
    private var owner: Any? = null
    private var isSpoiled = false

    /** Gives the state to [decoding], whose first step begins it anew, unless another has it or it is spoiled. */
    fun take(decoding: Any): Boolean {
        if (owner == null && !isSpoiled) owner = decoding
        return owner === decoding
    }

    /** Takes the state back. */
    fun leave() {
        owner = null
    }

    /** To be called if it is no number: multiplied by 0, which is how it begins anew, it would stay so. */
    fun spoil() {
        isSpoiled = true
    }

    /** The arguments of every step, [given] being the state that does not change. */
    fun arguments(given: List<EValue>): Array<EValue> = arrayOf(token.value, position.value, *given.toTypedArray())

    /** Feeds [token], the one after [before] others; [arguments] are those above. The logits are the program's memory. */
    fun feed(token: Int, before: Int, arguments: Array<EValue>): EValue {
        this.token.writeLongs(intArrayOf(token), 0)
        position.writeLongs(intArrayOf(before), 0)
        val outputs = module.execute(DECODE_IN_PLACE, *arguments)
        checkCount(DECODE_IN_PLACE, outputs, 1)
        return outputs[0]
    }
}

/**
 * @param state Of the first step.
 * @param resident Has the changing state of a decoding of one row, unless it is another's, until its rows are moved: then the
 *   row's tokens are fed once more, to [state].
 */
private class ExecuTorchDecoding(
    manifest: Manifest,
    private val module: Module,
    private val state: List<RowBuffer>,
    rows: Int,
    capacity: Int,
    resident: ResidentState?,
) : BundleDecoding(manifest, rows, capacity) {
    private var resident: ResidentState? = resident?.takeIf { rows == 1 && it.take(this) }
    private val arguments = this.resident?.arguments(
        state.filterIndexed { index, _ -> !manifest.state[index].changes }.map { it.view(0..0).value },
    )
    private val fed = mutableListOf<Int>()

    /** One call of the program's step: what it is given, and where its results go. */
    private class Call(val rows: IntRange, val tokens: RowBuffer.View, val arguments: Array<EValue>, val changed: List<RowBuffer.View>)

    private val changing = state.filterIndexed { index, _ -> manifest.state[index].changes }
    private val tokens = RowBuffer(ElementType.INT64, emptyList(), rows)
    private val logits = LogitsBuffer(manifest.vocabulary.tgtSize)
    private var calls: List<Call>? = null

    override fun feed(tokens: IntArray): FloatArray = resident?.let { feedResident(it, tokens[0]) } ?: feedRows(tokens)

    private fun feedResident(resident: ResidentState, token: Int): FloatArray {
        reporting(Problem.RUNTIME_FAILED, "ExecuTorch failed on $DECODE_IN_PLACE after ${fed.size} tokens") {
            logits.resize(1)
            logits.read(resident.feed(token, fed.size, checkNotNull(arguments)).toTensor(), 0..0)
        }
        if (logits.values[0].isNaN()) resident.spoil()
        fed += token
        return logits.values
    }

    private fun leaveProgram() {
        if (resident == null) return
        release()
        for (token in fed) feedRows(intArrayOf(token))
    }

    private fun feedRows(tokens: IntArray): FloatArray {
        reporting(Problem.RUNTIME_FAILED, "ExecuTorch failed on $DECODE_STEP with ${tokens.size} rows") {
            logits.resize(tokens.size)
            for (call in calls ?: makeCalls().also { calls = it }) {
                call.tokens.writeLongs(tokens, call.rows.first)
                val outputs = module.execute(DECODE_STEP, *call.arguments)
                checkCount(DECODE_STEP, outputs, 1 + call.changed.size)
                // They are the program's memory, which the next call overwrites.
                logits.read(outputs[0].toTensor(), call.rows)
                call.changed.forEachIndexed { index, view -> view.read(outputs[1 + index].toTensor()) }
            }
        }
        return logits.values
    }

    private fun makeCalls(): List<Call> {
        tokens.resize(rows)
        return parts(rows, manifest.bounds.executorchBatch).map { part ->
            val given = tokens.view(part)
            Call(part, given, arrayOf(given.value, *state.map { it.view(part).value }.toTypedArray()), changing.map { it.view(part) })
        }
    }

    override fun move(tensors: List<StateTensor>, rows: IntArray) {
        leaveProgram()
        val moving = state.filterIndexed { index, _ -> manifest.state[index] in tensors }
        reporting(Problem.RUNTIME_FAILED, "ExecuTorch's state: failed to reorder ${rows.size} rows") {
            // Memory first, since that is what can fail.
            moving.forEach { it.reserve(rows.size) }
            moving.forEach { it.gather(rows) }
        }
        calls = null
    }

    /** The memory is Java's, which collects it, but for the program's. */
    override fun release() {
        resident?.leave()
        resident = null
    }
}
