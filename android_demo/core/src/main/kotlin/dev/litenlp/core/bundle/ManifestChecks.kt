package dev.litenlp.core.bundle

import dev.litenlp.core.Json
import dev.litenlp.core.tokenizer.TokenizerDocument

/** Names that the graphs' other inputs and outputs have. */
private val ARGUMENTS = listOf("tokens", "src_tokens", "logits")

/** Checks that state tensors are told apart, have forms that make sense, and fit the memory. */
internal fun checkState(manifest: Manifest) {
    val names = manifest.state.map { it.name }
    if ((names + ARGUMENTS).toSet().size != names.size + ARGUMENTS.size) {
        throw noManifest("state: expected names that differ from each other and from $ARGUMENTS")
    }
    var bytes = 0L
    for (tensor in manifest.state) {
        checkForm(tensor)
        bytes += tensor.rowBytes(manifest.bounds)
        if (bytes > Limits.MAX_STATE_BYTES) {
            throw noManifest("state: expected at most ${Limits.MAX_STATE_BYTES} bytes for a row at the largest sizes, found more")
        }
    }
}

private fun checkForm(tensor: StateTensor) {
    val rest = tensor.shape.drop(1)
    val problem = when {
        tensor.shape.firstOrNull() != Dimension.BATCH || Dimension.BATCH in rest -> "the batch as first dimension alone"
        tensor.origin == Origin.SRC_MASK && (tensor.type != ElementType.BOOL || rest != listOf(Dimension.SOURCE)) ->
            "the mask as a bool tensor of batch and source"
        tensor.origin == Origin.ZEROS && !tensor.changes -> "that a tensor which begins as zeros changes"
        else -> return
    }
    throw noManifest("state: ${tensor.name}: expected $problem, found otherwise")
}

/** Bytes of one row at the largest sizes; more than the limit where it is far more. */
private fun StateTensor.rowBytes(bounds: Bounds): Long {
    val sizes = shape.drop(1).map { it.resolve(1, bounds.source, bounds.capacity).toLong() }
    if (sizes.any { it == 0L }) return 0
    val itemBytes = when (type) {
        ElementType.FLOAT32 -> 4L
        ElementType.INT64 -> 8L
        ElementType.BOOL -> 1L
    }
    // No product overflows: each factor is below 2^29, and the product before it at most the limit.
    return sizes.fold(itemBytes) { bytes, size -> if (bytes > Limits.MAX_STATE_BYTES) bytes else bytes * size }
}

/** Checks that every file that is needed is there, once. */
internal fun checkMembers(manifest: Manifest) {
    val wanted = listOf(Manifest.TOKENIZER_FILE, Manifest.CONFIG_FILE) +
        RuntimeKind.values().flatMap { it.files(manifest).orEmpty() }
    val missing = wanted.filter { it !in manifest.plainFiles } +
        manifest.packed?.ingredients.orEmpty().filter { it !in manifest.files }
    if (missing.isNotEmpty()) {
        throw noManifest("files: expected an entry for ${missing.distinct().joinToString(", ")}, found none")
    }
    val twice = manifest.packed?.members.orEmpty().keys.filter { it in manifest.files }
    if (twice.isNotEmpty()) {
        throw noManifest("packed: expected members that are not stored, found ${twice.joinToString(", ")} in both")
    }
}

/** Checks that what is made, and what is parsed as a whole, is in proportion to the file. */
internal fun checkSizes(manifest: Manifest) {
    // At most 64 entries of 4 GB each.
    val stored = manifest.files.values.sumOf { it.sizeBytes }
    val members = manifest.packed?.members.orEmpty()
    val limit = minOf(Limits.MAX_MADE_BYTES, Limits.MADE_BYTES_ALWAYS + Limits.MADE_BYTES_PER_STORED * stored)
    var made = 0L
    for (member in members.values) {
        made += member.entry.sizeBytes
        if (made > limit) throw tooLarge("at most $limit bytes of made members", "at least $made")
    }
    val limits = mapOf(
        Manifest.TOKENIZER_FILE to minOf(TokenizerDocument.MAX_BYTES.toLong(), Limits.TOKENIZER_BYTES_ALWAYS + stored),
        Manifest.CONFIG_FILE to Json.MAX_DOCUMENT_BYTES.toLong(),
        Manifest.METRICS_FILE to Json.MAX_DOCUMENT_BYTES.toLong(),
    )
    for ((name, most) in limits) {
        val found = (manifest.files[name] ?: members[name]?.entry)?.sizeBytes ?: continue
        if (found > most) throw tooLarge("$name of at most $most bytes", "$found")
    }
}
