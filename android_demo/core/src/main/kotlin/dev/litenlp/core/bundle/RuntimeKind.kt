package dev.litenlp.core.bundle

/**
 * The runtimes that a bundle may have graphs for: one row for each.
 *
 * @property key Name in manifests, reports and options.
 * @property title Name that its makers gave it.
 */
enum class RuntimeKind(val key: String, val title: String, private val listFiles: (Manifest) -> List<String>?) {
    ONNX("onnx", "ONNX Runtime", { manifest -> manifest.onnx?.run { listOf(encode, decodeStep, greedy, beam, weights) } }),
    EXECUTORCH("executorch", "ExecuTorch", { manifest -> manifest.executorch?.run { listOf(program) } }),
    ;

    /** Files of a bundle that the runtime loads; null if the bundle has none for it. */
    fun files(manifest: Manifest): List<String>? = listFiles(manifest)

    companion object {
        /** The runtime of this [key]; null if there is none. */
        fun of(key: String): RuntimeKind? = values().find { it.key == key }
    }
}
