package dev.litenlp.core.bundle

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.metrics.GraphWork
import org.json.JSONArray
import org.json.JSONObject

private const val MAX_NAME_BYTES = 255

/** [Manifest.parse]. */
internal fun parseManifest(content: ByteArray): Manifest {
    val document = try {
        Json.parseObject(content)
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

private fun readManifest(fields: Fields): Manifest {
    val version = fields.int("schema_version")
    if (version != Manifest.SCHEMA_VERSION) fields.fail("schema_version", "${Manifest.SCHEMA_VERSION}", version)
    val precision = fields.string("precision")
    if (precision != "fp32" && precision != "int8") fields.fail("precision", "fp32 or int8", precision)
    val manifest = Manifest(
        schemaVersion = version,
        name = fields.string("name"),
        versions = fields.section("versions").let { versions -> versions.keys.associateWith { versions.string(it) } },
        precision = precision,
        languages = fields.sectionOrNull("languages")?.let { Languages(it.string("src"), it.string("tgt")) },
        vocabulary = readVocabulary(fields.section("vocabulary")),
        bounds = fields.section("bounds").let {
            Bounds(it.int("source", 1), it.int("capacity", 1), it.int("executorch_batch", 1))
        },
        decoding = fields.sectionOrNull("decoding")?.let(::readDecoding),
        state = fields.sections("state").map(::readStateTensor),
        onnx = fields.sectionOrNull("onnx")?.let {
            OnnxEntry(it.string("encode"), it.string("decode_step"), it.string("weights"), it.string("new_prefix"))
        },
        executorch = fields.sectionOrNull("executorch")?.let { ExecuTorchEntry(it.string("program")) },
        budget = fields.freeObject("budget"),
        graphs = readGraphs(fields.freeObject("graphs")),
        scores = fields.freeObject("scores"),
        files = fields.section("files").let { files ->
            files.keys.associateWith { readFileEntry(files.section(memberName(it))) }
        },
        packed = fields.sectionOrNull("packed")?.let(::readPacked),
    )
    checkMembers(manifest)
    return manifest
}

private fun readVocabulary(fields: Fields) = Vocabulary(
    srcSize = fields.int("src_size", 1),
    tgtSize = fields.int("tgt_size", 1),
    padId = if (fields.has("pad_id")) fields.int("pad_id") else 0,
    bosId = if (fields.has("bos_id")) fields.int("bos_id") else 1,
    eosId = if (fields.has("eos_id")) fields.int("eos_id") else 2,
)

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
        name = fields.string("name"),
        type = ElementType.values().find { it.key == type } ?: fields.fail("dtype", "float32, int64 or bool", type),
        shape = fields.list("shape").map { size ->
            when {
                size == "batch" -> Dimension.BATCH
                size == "source" -> Dimension.SOURCE
                size == "capacity" -> Dimension.CAPACITY
                size is Int && size >= 0 -> Dimension.Fixed(size)
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
    return FileEntry(sha256, fields.long("size_bytes"))
}

private fun readPacked(fields: Fields): Packed {
    val members = fields.section("members").let { members ->
        members.keys.associateWith { readPackedMember(members.section(memberName(it))) }
    }
    var total = 0L
    for (member in members.values) {
        total += member.entry.sizeBytes
        if (member.entry.sizeBytes > Packed.MAX_MADE_BYTES || total > Packed.MAX_MADE_BYTES) {
            throw LiteNlpException(
                Problem.TOO_LARGE,
                "${Manifest.FILE}: packed: expected at most ${Packed.MAX_MADE_BYTES} bytes of made members, found " +
                    "${maxOf(total, member.entry.sizeBytes)}",
            )
        }
    }
    return Packed(fields.string("container"), members)
}

private fun readPackedMember(fields: Fields) = PackedMember(
    entry = readFileEntry(fields),
    residual = fields.string("residual"),
    parts = fields.sections("parts").map { part ->
        val offset = part.long("offset")
        if (part.has("tensor")) {
            part.refuse("sinusoid", "nothing beside a tensor")
            Part.OfTensor(offset, part.string("tensor"), part.has("transposed") && part.boolean("transposed"))
        } else {
            val table = part.section("sinusoid")
            Part.Sinusoid(offset, table.int("rows", 1), table.int("columns", 2))
        }
    },
)

/** Work that cannot be read is found here, not when somebody asks for it. */
private fun readGraphs(graphs: JSONObject): JSONObject {
    for (name in graphs.keys()) {
        GraphWork.fromJson(graphs.opt(name) as? JSONObject ?: throw noManifest("graphs.$name: expected an object, found another value"))
    }
    return graphs
}

/** Members become files in a folder: a name that says more than that is refused. */
private fun memberName(name: String): String {
    val plain = name.isNotEmpty() && name != "." && name != ".." && name != Manifest.FILE &&
        name.toByteArray(Charsets.UTF_8).size <= MAX_NAME_BYTES &&
        name.none { it == '/' || it == '\\' || it == ':' || it < ' ' || it == '\u007f' || it.isSurrogate() }
    return if (plain) name else throw noManifest("files: expected plain member names, found '$name'")
}

private fun checkMembers(manifest: Manifest) {
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

private fun noManifest(message: String) = LiteNlpException(Problem.NOT_A_BUNDLE, "${Manifest.FILE}: $message")

/** The fields of a JSON object at [path], each read with its type. Unknown ones are ignored. */
private class Fields(private val content: JSONObject, private val path: String) {
    val keys: List<String> get() = content.keys().asSequence().toList()

    fun has(key: String): Boolean = content.has(key)

    /** Throws if the key is there. */
    fun refuse(key: String, expected: String) {
        if (has(key)) fail(key, expected, content.opt(key))
    }

    fun string(key: String): String = content.opt(key) as? String ?: fail(key, "a string", content.opt(key))

    fun boolean(key: String): Boolean = content.opt(key) as? Boolean ?: fail(key, "true or false", content.opt(key))

    fun int(key: String, least: Int = 0): Int =
        (content.opt(key) as? Int)?.takeIf { it >= least } ?: fail(key, "an integer of at least $least", content.opt(key))

    fun long(key: String): Long = when (val value = content.opt(key)) {
        is Int -> value.toLong()
        is Long -> value
        else -> null
    }?.takeIf { it >= 0 } ?: fail(key, "an integer of at least 0", content.opt(key))

    fun number(key: String): Double =
        (content.opt(key) as? Number)?.toDouble()?.takeIf { it >= 0 } ?: fail(key, "a number of at least 0", content.opt(key))

    fun list(key: String): List<Any> {
        val array = content.opt(key) as? JSONArray ?: fail(key, "a list", content.opt(key))
        return List(array.length()) { array.get(it) }
    }

    fun section(key: String): Fields = section(content.opt(key), key)

    fun sectionOrNull(key: String): Fields? = if (content.isNull(key)) null else section(key)

    fun sections(key: String): List<Fields> = list(key).mapIndexed { index, value -> section(value, "$key.$index") }

    /** An object of any content; an empty one if there is none. */
    fun freeObject(key: String): JSONObject = when {
        !content.has(key) -> JSONObject()
        else -> content.opt(key) as? JSONObject ?: fail(key, "an object", content.opt(key))
    }

    fun fail(key: String, expected: String, found: Any?): Nothing {
        val shown = (found ?: "nothing").toString().take(200)
        throw noManifest("$path$key: expected $expected, found $shown")
    }

    private fun section(value: Any?, key: String): Fields =
        Fields(value as? JSONObject ?: fail(key, "an object", value), "$path$key.")
}
