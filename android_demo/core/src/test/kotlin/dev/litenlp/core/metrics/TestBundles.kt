package dev.litenlp.core.metrics

import dev.litenlp.core.bundle.InstalledBundle
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.search.ModelEngine
import dev.litenlp.core.search.SpecialTokens
import java.io.File
import org.json.JSONObject

/** Work of the shipped model's graphs, as its manifest has it. */
const val SHIPPED_WORK =
    """{"encode": {"matmul": [[1536, 2, 0], [1536000, 1, 0]], "layer_norm": [[2304, 1, 0]]},
        "decode_step": {"matmul": [[2048, 1, 0], [1024, 0, 1], [3079168, 0, 0]], "layer_norm": [[3328, 0, 0]]}}"""

/** Figures of the shipped model, as its manifest has them. */
const val SHIPPED_BUDGET =
    """{"lengths": {"src": 30, "tgt": 30}, "params": {"total": 4634624, "embeddings": 1536000, "paper": 3098624},
        "macs": {"paper": 96015360, "executed": 142080000}}"""

/** A manifest of a bundle with empty files but the ONNX weights, of 3 bytes. */
fun manifestJson(budget: String = "{}", graphs: String = "{}", scores: String = "{}"): String {
    val onnx = listOf("encode", "decode_step", "greedy", "beam").map { "$it.onnx" }
    val names = listOf("tokenizer.json", "config.toml") + onnx + listOf("weights.bin", "model.pte")
    val files = names.joinToString { name ->
        """"$name": {"sha256": "${"0".repeat(64)}", "size_bytes": ${if (name == "weights.bin") 3 else 0}}"""
    }
    return """{"schema_version": 1, "name": "tiny", "versions": {}, "precision": "fp32", "languages": null,
        "vocabulary": {"src_size": 20, "tgt_size": 12},
        "bounds": {"source": 16, "capacity": 40, "executorch_batch": 8}, "state": [],
        "onnx": {"encode": "encode.onnx", "decode_step": "decode_step.onnx", "greedy": "greedy.onnx",
                "beam": "beam.onnx", "weights": "weights.bin", "new_prefix": "new.",
                "operators": ["com.microsoft::GroupQueryAttention"], "oldest_runtime": "1.24"},
        "executorch": {"program": "model.pte"}, "parity": {},
        "budget": $budget, "graphs": $graphs, "scores": $scores, "files": {$files}}"""
}

fun manifest(budget: String = "{}", graphs: String = "{}", scores: String = "{}"): Manifest =
    Manifest.parse(manifestJson(budget, graphs, scores).toByteArray())

/** Writes a bundle of the shipped model's figures, whose files are no graphs, to [directory]. */
fun installedBundle(directory: File): InstalledBundle {
    val json = manifestJson(SHIPPED_BUDGET, """{"onnx": $SHIPPED_WORK, "executorch": $SHIPPED_WORK}""")
    File(directory, "manifest.json").writeText(json)
    for (name in JSONObject(json).getJSONObject("files").keys()) {
        File(directory, name).writeBytes(ByteArray(if (name == "weights.bin") 3 else 0))
    }
    return InstalledBundle.open(directory, verify = false)
}

/** An engine that says the source backwards. */
fun backwards() = ModelEngine(vocabSize = 12, maxSteps = 40, maxSourceTokens = 16) { source, produced ->
    FloatArray(12).also { it[source.reversed().getOrElse(produced.size) { SpecialTokens.EOS }] = 9f }
}
