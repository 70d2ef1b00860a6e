package dev.litenlp.core.bundle

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.tokenizer.TokenizerDocument
import org.json.JSONObject

/** Names of made members, which become files wherever a bundle is unpacked. */
private val MADE_NAME = Regex("[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")

/** [Manifest.parse]. */
internal fun parseManifest(content: ByteArray): Manifest {
    val document = try {
        Json.parseObject(content, maxBytes = Limits.MAX_MANIFEST_BYTES)
    } catch (error: JsonSyntaxException) {
        throw noManifest("expected JSON: ${error.message}")
    }
    val version = document.opt("schema_version")
    val newer = when (version) {
        is Int -> version > Manifest.SCHEMA_VERSION
        is Long -> version > Manifest.SCHEMA_VERSION
        else -> false
    }
    if (newer) {
        throw LiteNlpException(
            Problem.NEWER_SCHEMA,
            "${Manifest.FILE}: expected schema_version ${Manifest.SCHEMA_VERSION}, found $version: the bundle was made by a " +
                "newer lite-nlp",
        )
    }
    return readManifest(Fields(document, ""))
}

private val PRECISIONS = setOf("fp32", "int8", "mixed")

private fun readManifest(fields: Fields): Manifest {
    val version = fields.int("schema_version")
    if (version != Manifest.SCHEMA_VERSION) fields.fail("schema_version", "${Manifest.SCHEMA_VERSION}", version)
    checkTask(fields)
    val precision = fields.string("precision")
    if (precision !in PRECISIONS) fields.fail("precision", "fp32, int8 or mixed", precision)
    val manifest = Manifest(
        schemaVersion = version,
        name = fields.text("name"),
        versions = fields.section("versions").let { versions ->
            versions.names(Limits.MAX_VERSIONS).associateWith { versions.text(it) }
        },
        precision = precision,
        languages = fields.sectionOrNull("languages")?.let { Languages(it.text("src"), it.text("tgt")) },
        vocabulary = readVocabulary(fields.section("vocabulary")),
        bounds = fields.section("bounds").let {
            Bounds(
                it.int("source", 1, Limits.MAX_TOKENS),
                it.int("capacity", 1, Limits.MAX_TOKENS),
                it.int("executorch_batch", 1, Limits.MAX_BATCH),
                if (it.has("executorch_sources")) it.int("executorch_sources", 1, Limits.MAX_BATCH) else 2,
            )
        },
        decoding = fields.sectionOrNull("decoding")?.let(::readDecoding),
        state = fields.sections("state", Limits.MAX_STATE_TENSORS).map(::readStateTensor),
        onnx = fields.sectionOrNull("onnx")?.let(::readOnnx),
        executorch = fields.sectionOrNull("executorch")?.let(::readExecuTorch),
        budget = fields.freeObject("budget"),
        graphs = readGraphs(fields),
        scores = readScores(fields),
        files = fields.section("files").let { files ->
            files.names(Limits.MAX_FILES).associateWith { readFileEntry(files.section(memberName(it))) }
        },
        packed = fields.sectionOrNull("packed")?.let(::readPacked),
    )
    // Nothing here needs these, but a manifest is the same to all readers.
    fields.freeObject("parity")
    refuseOtherTasks(fields)
    checkState(manifest)
    checkMembers(manifest)
    checkSizes(manifest)
    return manifest
}

private fun readOnnx(fields: Fields) = OnnxEntry(
    fields.string("encode"),
    fields.string("decode_step"),
    fields.string("greedy"),
    fields.string("beam"),
    fields.string("weights"),
    fields.text("new_prefix"),
    fields.texts("operators", Limits.MAX_OPERATORS),
    fields.string("oldest_runtime").also {
        if (!RELEASE.matches(it)) fields.fail("oldest_runtime", "a version such as 1.24", it)
    },
)

private fun readExecuTorch(fields: Fields): ExecuTorchEntry {
    // Nothing here needs these, but a manifest is the same to all readers.
    if (fields.has("rows_in_place")) fields.boolean("rows_in_place")
    if (fields.has("calls")) {
        val calls = fields.section("calls")
        for (method in calls.names(Int.MAX_VALUE)) {
            val called = calls.section(method)
            called.int("delegated")
            val kernels = called.section("kernels")
            for (kernel in kernels.names(Int.MAX_VALUE)) kernels.int(kernel)
        }
    }
    return ExecuTorchEntry(fields.string("program"), inPlace = fields.has("in_place") && fields.boolean("in_place"))
}

private val RELEASE = Regex("[0-9]{1,4}\\.[0-9]{1,4}")

/** A bundle that does not say what it is for is for translation. */
private fun checkTask(fields: Fields) {
    val task = if (fields.has("task")) fields.text("task") else Manifest.TASK
    if (task != Manifest.TASK) {
        throw LiteNlpException(Problem.OTHER_TASK, "${Manifest.FILE}: expected a bundle for ${Manifest.TASK}, found one for $task")
    }
}

/** What only bundles for other tasks have. */
private fun refuseOtherTasks(fields: Fields) {
    if (fields.sectionOrNull("classes") != null) fields.fail("classes", "none in a bundle for translation", "some")
    if (fields.has("programs") && fields.section("programs").sectionOrNull("onnx") != null) {
        fields.fail("programs.onnx", "none in a bundle for translation", "some")
    }
}

private fun readVocabulary(fields: Fields): Vocabulary {
    fun id(key: String, otherwise: Int) = if (fields.has(key)) fields.int(key, 0, TokenizerDocument.MAX_TYPES - 1) else otherwise
    return Vocabulary(
        srcSize = fields.int("src_size", 1, TokenizerDocument.MAX_TYPES),
        tgtSize = fields.int("tgt_size", 1, TokenizerDocument.MAX_TYPES),
        padId = id("pad_id", 0),
        bosId = id("bos_id", 1),
        eosId = id("eos_id", 2),
    )
}

private fun readDecoding(fields: Fields): DecodingDefaults {
    val longInput = fields.string("long_input")
    if (longInput != "split" && longInput != "truncate") fields.fail("long_input", "split or truncate", longInput)
    return DecodingDefaults(
        lengthPenalty = fields.number("length_penalty"),
        noRepeatNgram = fields.int("no_repeat_ngram"),
        minLength = fields.int("min_length"),
        maxLength = fields.int("max_length"),
        truncates = longInput == "truncate",
        maxSourceTokens = fields.int("max_source_tokens", 1),
    )
}

private fun readStateTensor(fields: Fields): StateTensor {
    val type = fields.string("dtype")
    val origin = fields.string("origin")
    return StateTensor(
        name = fields.text("name").ifEmpty { fields.fail("name", "a name", "none") },
        type = ElementType.values().find { it.key == type } ?: fields.fail("dtype", "float32, int64 or bool", type),
        shape = fields.list("shape", Limits.MAX_RANK).map { size ->
            when {
                size == "batch" -> Dimension.BATCH
                size == "source" -> Dimension.SOURCE
                size == "capacity" -> Dimension.CAPACITY
                size is Int && size in 0..Limits.MAX_STATE_BYTES -> Dimension.Fixed(size)
                else -> fields.fail("shape", "sizes, 'batch', 'source' or 'capacity'", size)
            }
        },
        origin = Origin.values().find { it.key == origin } ?: fields.fail("origin", "zeros, encode or src_mask", origin),
        changes = fields.boolean("changes"),
    )
}

private fun readFileEntry(fields: Fields): FileEntry {
    val sha256 = fields.string("sha256")
    if (sha256.length != 64 || !sha256.all { it in '0'..'9' || it in 'a'..'f' }) {
        fields.fail("sha256", "64 hexadecimal digits", sha256)
    }
    val size = fields.long("size_bytes")
    if (size > Limits.MAX_FILE_BYTES) throw tooLarge("a file of at most ${Limits.MAX_FILE_BYTES} bytes", "one of $size")
    return FileEntry(sha256, size)
}

private fun readPacked(fields: Fields): Packed {
    val members = fields.section("members").let { members ->
        members.names(Limits.MAX_PACKED_MEMBERS).associateWith { name ->
            if (!MADE_NAME.matches(name)) throw noManifest("packed: expected plain file names, found '$name'")
            val member = members.section(memberName(name))
            PackedMember(readFileEntry(member), member.string("residual"))
        }
    }
    val recipes = fields.section("recipes")
    val size = recipes.int("size_bytes", 0, Limits.MAX_MANIFEST_BYTES)
    return Packed(
        container = fields.string("container"),
        recipes = recipes.string("file"),
        recipesBytes = size.toLong(),
        exponents = fields.stringOrNull("exponents"),
        codes = fields.stringOrNull("codes"),
        members = members,
    )
}

private fun readScores(fields: Fields): JSONObject {
    val scores = fields.freeObject("scores")
    val found = Fields(scores, "scores.")
    for (name in found.names(Limits.MAX_SCORES)) found.section(name)
    return scores
}

/** Work that cannot be read is found here, not when somebody asks for it. */
private fun readGraphs(fields: Fields): JSONObject {
    val graphs = fields.freeObject("graphs")
    val found = Fields(graphs, "graphs.")
    for (name in found.names(Limits.MAX_GRAPHS)) {
        val work = found.freeObject(name)
        for (graph in work.keys()) {
            if (graph != "encode" && graph != "decode_step") throw noManifest("graphs.$name: expected no key '$graph', found one")
            val kinds = Fields(work, "graphs.$name.").freeObject(graph)
            for (kind in kinds.keys()) Fields(kinds, "graphs.$name.$graph.").list(kind, Limits.MAX_TERMS)
        }
        GraphWork.fromJson(work)
    }
    return graphs
}

/** Members become files in a folder: a name that says more than that is refused. */
private fun memberName(name: String): String {
    val plain = name.isNotEmpty() && name != "." && name != ".." && name != Manifest.FILE &&
        name.toByteArray(Charsets.UTF_8).size <= Limits.MAX_NAME_BYTES &&
        name.none { it == '/' || it == '\\' || it == ':' || it < ' ' || it == '\u007f' || it.isSurrogate() }
    return if (plain) name else throw noManifest("files: expected plain member names, found '$name'")
}
