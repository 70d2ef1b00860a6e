package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest

/** Names of the ONNX graphs' inputs and outputs, beside those of the state tensors. */
object OnnxNames {
    /** Input of `decode_step`: a token for each row; of `beam`: one for each hypothesis. */
    const val TOKENS = "tokens"

    /** Input of `encode`. */
    const val SRC_TOKENS = "src_tokens"

    /** Input of `encode`. */
    const val SRC_MASK = "src_mask"

    /** Output of `decode_step`. */
    const val LOGITS = "logits"

    // Inputs of `beam` beside [TOKENS]: properties of [BeamCall].
    const val PARENTS = "parents"
    const val LIVE = "live"
    const val BEST = "best"
    const val FINISHED = "finished"
    const val LIMITS = "limits"
    const val BLOCKED = "blocked"
    const val PENALTIES = "penalties"
    const val COUNT = "count"
    const val STEP = "step"
    const val STEPS = "steps"
    const val LEAVE = "leave"
    const val MIN_LENGTH = "min_length"

    // Outputs of `beam`: properties of [BeamSteps]; the sum of log-probabilities is no number if one of them is none.
    const val MADE_TOKENS = "made.tokens"
    const val MADE_PARENTS = "made.parents"
    const val LAST_LIVE = "last.live"
    const val LAST_BEST = "last.best"
    const val LAST_ORIGINS = "last.origins"
    const val LAST_FINISHED = "last.finished"
    const val LAST_DONE = "last.done"
    const val LAST_LOG_PROB_SUM = "last.log_prob_sum"

    // Sizes of the state among the inputs of `beam`: tokens of the output so far, and most of them.
    const val PAST = "past"
    const val CAPACITY = "capacity"

    private val BEAM_INPUTS =
        listOf(TOKENS, PARENTS, LIVE, BEST, FINISHED, LIMITS, BLOCKED, PENALTIES, COUNT, STEP, STEPS, LEAVE, MIN_LENGTH)

    private val BEAM_OUTPUTS = listOf(
        MADE_TOKENS,
        MADE_PARENTS,
        LAST_LIVE,
        LAST_BEST,
        LAST_ORIGINS,
        LAST_FINISHED,
        LAST_DONE,
        LAST_LOG_PROB_SUM,
    )

    /** Inputs and outputs of a graph, as a runtime tells them. */
    class Graph(val inputs: Collection<String>, val outputs: Collection<String>)

    /**
     * Graphs are bound by name: each input that they ask for must be one that the manifest gives (an input that a graph has no
     * use for may be missing), and the outputs must be those of the manifest, no more and no fewer.
     *
     * @throws LiteNlpException `RUNTIME_REFUSED` if they differ.
     */
    fun checkEncode(manifest: Manifest, graph: Graph) =
        expect("encode", graph, inputs = listOf(SRC_TOKENS, SRC_MASK), outputs = manifest.encoded)

    /**
     * As [checkEncode].
     *
     * @param newPrefix As in [dev.litenlp.core.bundle.OnnxEntry.newPrefix].
     */
    fun checkDecodeStep(manifest: Manifest, newPrefix: String, graph: Graph) =
        expect("decode_step", graph, manifest.state.map { it.name } + TOKENS, manifest.changing.map { newPrefix + it } + LOGITS)

    /** As [checkDecodeStep]. */
    fun checkBeam(manifest: Manifest, newPrefix: String, graph: Graph) =
        expect("beam", graph, manifest.state.map { it.name } + BEAM_INPUTS, manifest.changing.map { newPrefix + it } + BEAM_OUTPUTS)

    private fun expect(name: String, graph: Graph, inputs: Collection<String>, outputs: Collection<String>) {
        expectAmong("inputs of $name", graph.inputs, inputs)
        expectSame("outputs of $name", graph.outputs, outputs)
    }

    private fun expectAmong(what: String, names: Collection<String>, known: Collection<String>) {
        val unknown = names - known.toSet()
        if (unknown.isNotEmpty()) throw refused("$what: expected names among $known, found $unknown")
    }

    private fun expectSame(what: String, names: Collection<String>, known: Collection<String>) {
        if (names.size != known.size || names.toSet() != known.toSet()) throw refused("$what: expected $known, found $names")
    }

    private fun refused(message: String) = LiteNlpException(Problem.RUNTIME_REFUSED, message)
}
