package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest

/** Names of the ONNX graphs' inputs and outputs, beside those of the state tensors. */
object OnnxNames {
    /** Input of `decode_step`: a token for each row. */
    const val TOKENS = "tokens"

    /** Input of `encode`. */
    const val SRC_TOKENS = "src_tokens"

    /** Input of `encode`. */
    const val SRC_MASK = "src_mask"

    /** Output of `decode_step`. */
    const val LOGITS = "logits"

    /** Inputs and outputs of a graph, as a runtime tells them. */
    class Graph(val inputs: Collection<String>, val outputs: Collection<String>)

    /**
     * Graphs are bound by name: each that they ask for must be one that the manifest gives, and the other way round.
     *
     * @param newPrefix As in [dev.litenlp.core.bundle.OnnxEntry.newPrefix].
     * @throws LiteNlpException `RUNTIME_REFUSED` if they differ.
     */
    fun check(manifest: Manifest, newPrefix: String, encode: Graph, decodeStep: Graph) {
        expectAmong("inputs of encode", encode.inputs, listOf(SRC_TOKENS, SRC_MASK))
        expectAmong("state of origin encode", manifest.encoded, encode.outputs)
        expectAmong("inputs of decode_step", decodeStep.inputs, manifest.state.map { it.name } + TOKENS)
        expectAmong("changing state", manifest.changing.map { newPrefix + it } + LOGITS, decodeStep.outputs)
    }

    private fun expectAmong(what: String, names: Collection<String>, known: Collection<String>) {
        val unknown = names - known.toSet()
        if (unknown.isNotEmpty()) {
            throw LiteNlpException(Problem.RUNTIME_REFUSED, "$what: expected names among $known, found $unknown")
        }
    }
}
