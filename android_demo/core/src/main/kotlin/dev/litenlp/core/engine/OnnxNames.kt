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
     * Graphs are bound by name: each input that they ask for must be one that the manifest gives (an input that a graph has no
     * use for may be missing), and the outputs must be those of the manifest, no more and no fewer.
     *
     * @param newPrefix As in [dev.litenlp.core.bundle.OnnxEntry.newPrefix].
     * @throws LiteNlpException `RUNTIME_REFUSED` if they differ.
     */
    fun check(manifest: Manifest, newPrefix: String, encode: Graph, decodeStep: Graph) {
        expectAmong("inputs of encode", encode.inputs, listOf(SRC_TOKENS, SRC_MASK))
        expectSame("outputs of encode", encode.outputs, manifest.encoded)
        expectAmong("inputs of decode_step", decodeStep.inputs, manifest.state.map { it.name } + TOKENS)
        expectSame("outputs of decode_step", decodeStep.outputs, manifest.changing.map { newPrefix + it } + LOGITS)
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
