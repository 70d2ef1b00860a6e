package dev.litenlp.core.bundle

import java.io.ByteArrayOutputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest
import java.util.zip.CRC32
import java.util.zip.Deflater
import org.json.JSONArray
import org.json.JSONObject

/** Writes small bundles as `lite-nlp export` does, and others that it never would. */
internal class TestBundle {
    /** Members but the manifest. */
    val files = linkedMapOf(
        "tokenizer.json" to tokenizer("<pad>", "<s>", "</s>", "a"),
        "config.toml" to "[model]\n".toByteArray(),
        "encode.onnx" to ByteArray(300) { it.toByte() },
        "decode_step.onnx" to ByteArray(301) { (it * 7).toByte() },
        "greedy.onnx" to ByteArray(302) { (it * 5).toByte() },
        "beam.onnx" to ByteArray(303) { (it * 3).toByte() },
        "weights.bin" to WEIGHTS,
        "model.pte" to PROGRAM,
    )

    /** Changed before the manifest is written. */
    var change: (JSONObject) -> Unit = {}

    /** Leaves out both runtimes. */
    fun withoutGraphs(): TestBundle = apply {
        files.keys.retainAll(setOf("tokenizer.json", "config.toml"))
        change = { manifest -> for (key in listOf("onnx", "executorch", "graphs", "scores")) manifest.remove(key) }
    }

    /**
     * Describes `weights.bin` and `model.pte` instead of storing them; [edit] may change the description, [editRecipes] what the
     * predictions are made of.
     */
    fun compact(editRecipes: (JSONObject) -> Unit = {}, edit: (JSONObject) -> Unit = {}): TestBundle = apply {
        files -= listOf("weights.bin", "model.pte")
        files["weights.lnlp"] = container(mapOf("matrix" to (intArrayOf(2, 1, 3) to MATRIX), "bias" to (intArrayOf(2) to BIAS)))
        files["weights.bin.residual"] = deflate(ByteArray(WEIGHTS.size).also { it[WEIGHTS.size - 1] = 9 })
        files["model.pte.residual"] = deflate(ByteArray(PROGRAM.size).also { it[0] = 0x55 })
        val members = JSONObject()
            .put("weights.bin", made(WEIGHTS, "weights.bin.residual"))
            .put("model.pte", made(PROGRAM, "model.pte.residual"))
        val recipes = JSONObject(
            """{"parts": {"weights.bin": [{"offset": 0, "tensor": "matrix", "transposed": false}, {"offset": 28, "tensor": "bias"}],
            "model.pte": [{"offset": 5, "tensor": "matrix", "transposed": true},
                {"offset": 29, "sinusoid": {"rows": 3, "columns": 5}}]}}""",
        )
        val packed = JSONObject().put("container", "weights.lnlp").put("members", members)
        editRecipes(recipes)
        val content = recipes.toString().toByteArray()
        files["recipes.zlib"] = deflate(content)
        packed.put("recipes", JSONObject().put("file", "recipes.zlib").put("size_bytes", content.size))
        edit(packed)
        val before = change
        change = { manifest -> manifest.put("packed", packed); before(manifest) }
    }

    /** A [compact] one whose container has the tokenizer, in two halves; [edit] may change the parts of `tokenizer.json`. */
    fun compactWithTokenizer(edit: (JSONArray) -> Unit = {}): TestBundle = apply {
        val content = checkNotNull(files.remove("tokenizer.json"))
        val parts = JSONArray("""[{"offset": 0, "file": "first"}, {"offset": 10, "file": "second"}]""")
        edit(parts)
        compact(editRecipes = { it.getJSONObject("parts").put("tokenizer.json", parts) }) { packed ->
            packed.getJSONObject("members").put("tokenizer.json", made(content, "tokenizer.json.residual"))
        }
        files["weights.lnlp"] = container(
            mapOf("matrix" to (intArrayOf(2, 1, 3) to MATRIX), "bias" to (intArrayOf(2) to BIAS)),
            mapOf("first" to content.copyOf(10), "second" to content.copyOfRange(10, content.size)),
        )
        files["tokenizer.json.residual"] = deflate(ByteArray(content.size))
    }

    /** A [compact] one whose `model.pte` is [INTEGERS_BYTES] bytes of integers and scales; [edit] may change the recipes. */
    fun compactWithIntegers(codes: ByteArray = CODES, edit: (JSONObject) -> Unit = {}): TestBundle = apply {
        val parts = """[{"offset": 0, "integers": "eight", "rows": [0, 3], "transposed": true},
            {"offset": 192, "integers": "eight", "rows": [2, 3]}, {"offset": 256, "scales": "eight", "rows": [0, 3]},
            {"offset": 268, "integers": "four", "rows": [0, 3]}, {"offset": 364, "scales": "four", "rows": [0, 3]},
            {"offset": 388, "scales": "four", "rows": [1, 3], "bf16": true}]"""
        val rounded = JSONArray("""[{"tensor": "eight", "bits": 8}, {"tensor": "four", "bits": 4}]""")
        val editRecipes = { recipes: JSONObject ->
            recipes.put("rounded", rounded).getJSONObject("parts").put("model.pte", JSONArray(parts))
            edit(recipes)
        }
        compact(editRecipes) { packed ->
            val member = made(ByteArray(INTEGERS_BYTES), "model.pte.residual").put("sha256", INTEGERS_SHA256)
            packed.put("codes", "weights.codes").getJSONObject("members").put("model.pte", member)
        }
        val tensors = listOf("eight", "four").associateWith { intArrayOf(3, 64) to ROUNDED }
        files["weights.lnlp"] = container(tensors + mapOf("matrix" to (intArrayOf(2, 1, 3) to MATRIX), "bias" to (intArrayOf(2) to BIAS)))
        files["model.pte.residual"] = deflate(ByteArray(INTEGERS_BYTES))
        files["weights.codes"] = deflate(codes)
    }

    /** A [compact] one whose `model.pte` is [SCALED], made of scaled tensors; [edit] may change the recipes. */
    fun compactWithScaled(exponents: ByteArray = EXPONENTS, edit: (JSONObject) -> Unit = {}): TestBundle = apply {
        val parts = """[{"offset": 0, "tensor": "weight"}, {"offset": 24, "tensor": "weight", "transposed": true},
            {"offset": 48, "tensor": "twin"}, {"offset": 72, "tensor": "gains"},
            {"offset": 80, "integers": "levels", "rows": [0, 2]}, {"offset": 88, "scales": "levels", "rows": [0, 2]}]"""
        val scaled = """[{"tensor": "weight", "rows": true, "columns": true}, {"tensor": "gains", "rows": true},
            {"tensor": "levels", "rows": false, "columns": true}]"""
        val editRecipes = { recipes: JSONObject ->
            recipes.put("scaled", JSONArray(scaled)).put("rounded", JSONArray("""[{"tensor": "levels", "bits": 8}]"""))
            recipes.getJSONObject("parts").put("model.pte", JSONArray(parts))
            edit(recipes)
        }
        compact(editRecipes) { packed ->
            packed.put("exponents", "weights.exponents").put("codes", "weights.codes")
            packed.getJSONObject("members").put("model.pte", made(SCALED, "model.pte.residual"))
        }
        files["weights.lnlp"] = scaledContainer()
        files["model.pte.residual"] = deflate(ByteArray(SCALED.size))
        files["weights.exponents"] = deflate(exponents)
        files["weights.codes"] = deflate(byteArrayOf(64, 2))
    }

    fun manifest(): ByteArray {
        val manifest = JSONObject(
            """{"schema_version": 1, "name": "tiny", "versions": {"lite_nlp": "0.1.0"}, "precision": "fp32",
            "languages": {"src": "en", "tgt": "de"},
            "vocabulary": {"src_size": 4, "tgt_size": 4, "pad_id": 0, "bos_id": 1, "eos_id": 2},
            "bounds": {"source": 16, "capacity": 32, "executorch_batch": 8, "executorch_sources": 3},
            "state": [{"name": "position", "dtype": "int64", "shape": ["batch"], "origin": "zeros", "changes": true},
                      {"name": "mask", "dtype": "bool", "shape": ["batch", "source"], "origin": "src_mask", "changes": false},
                      {"name": "key", "dtype": "float32", "shape": ["batch", 4, "source", 2], "origin": "encode", "changes": false},
                      {"name": "cache", "dtype": "float32", "shape": ["batch", "capacity"], "origin": "zeros", "changes": true}],
            "onnx": {"encode": "encode.onnx", "decode_step": "decode_step.onnx", "greedy": "greedy.onnx",
                "beam": "beam.onnx", "weights": "weights.bin", "new_prefix": "new.",
                "operators": ["com.microsoft::GroupQueryAttention"], "oldest_runtime": "1.24"},
            "executorch": {"program": "model.pte"}, "parity": {}, "budget": {"params": 12},
            "graphs": {"onnx": {"encode": {"matmul": [[3, 1, 0]]}, "decode_step": {"matmul": [[5, 0, 1], [7, 0, 0]]}}},
            "scores": {"test": {"bleu": 39.5}}, "files": {}}""",
        )
        val entries = manifest.getJSONObject("files")
        for ((name, content) in files) entries.put(name, JSONObject().put("sha256", sha256(content)).put("size_bytes", content.size))
        change(manifest)
        return manifest.toString().toByteArray()
    }

    fun zip(): ByteArray = ZipWriter().apply {
        add("manifest.json", manifest())
        for ((name, content) in files) add(name, content)
    }.finish()

    companion object {
        val MATRIX = floatArrayOf(1f, -2f, 3.5f, -4f, 5.25f, Float.MIN_VALUE)
        val BIAS = floatArrayOf(0.5f, -0f)

        /** The matrix, a gap of four zeros, the bias, two zeros, the last of which the residual makes a 9. */
        val WEIGHTS = floats(MATRIX) + ByteArray(4) + floats(BIAS) + byteArrayOf(0, 9)

        /** Sines and cosines of 0, 1 and 2 at two rates, and a column of zeros: bits of the floats, by NumPy. */
        private val SINUSOID = longArrayOf(
            0, 0, 0x3F800000, 0x3F800000, 0,
            0x3F576AA4, 0x38D1B716, 0x3F0A5140, 0x3F800000, 0,
            0x3F68C7B7, 0x3951B716, 0xBED51133, 0x3F800000, 0,
        )

        /** Four zeros after a byte that the residual changes, the matrix transposed, the sinusoids. */
        val PROGRAM = byteArrayOf(0x55, 0, 0, 0, 0) + floats(floatArrayOf(1f, -4f, -2f, 5.25f, 3.5f, Float.MIN_VALUE)) +
            floats(FloatArray(SINUSOID.size) { Float.fromBits(SINUSOID[it].toInt()) })

        /** Three rows of 64: one of none of its own steps, one of zeros, one of four times a step up and down. */
        val ROUNDED = FloatArray(3 * 64) {
            val column = it % 64
            when (it / 64) {
                0 -> if (column == 40) 1.7f else (3 * column % 23 - 11) / 8f
                1 -> 0f
                else -> (column % 9 - 4) * 0.37f
            }
        }

        /** Of the rows in 8 bits, then of their two blocks in 4; the Python package chooses these, and makes these bytes of them. */
        val CODES = byteArrayOf(68, 127, 4, 3, 1, 0, 0, 132.toByte(), 132.toByte())
        const val INTEGERS_BYTES = 396
        const val INTEGERS_SHA256 = "18811985707ddf2f2f74d5bfd4f38121fd8d28e72a5233aa3f6da3a18b9043e3"

        private val WEIGHT = floatArrayOf(1f, 3f, -4f, 1f, Float.MIN_VALUE, 8f)
        private val LEVELS = floatArrayOf(64f, 3f, 8f, -5f, 1f, -0.5f, 1f, 0.125f)

        /** Of the rows and columns of the weight, of the elements of the gains, of the columns of the levels. */
        val EXPONENTS = byteArrayOf(1, -2, 1, 2, -3, -1, 3, 1, 3, -1, 5)

        /**
         * The weight, the same transposed, the same by its other name, the gains, integers and scales of the levels.
         *
         * With `r`, the fp32 nearest to the square root of 2, of bits 0x3FB504F3, the weight becomes `r r`, which rounds to less
         * than 2, `2 (3 r)` and `-r r` in the first row, `r / 2`, 0 and `r` in the second: half of the least value rounds to 0
         * before its column doubles it. The gains become `r / 4` and -0, the levels `r` times 64, 6, 4 and -20, and 1, -1, 1/2
         * and 1/2, with 64 and 2 steps in the largest magnitudes of the rows.
         */
        val SCALED = bits(0x3FFFFFFF, 0x4107C3B6, 0xBFFFFFFF, 0x3F3504F3, 0, 0x3FB504F3) +
            bits(0x3FFFFFFF, 0x3F3504F3, 0x4107C3B6, 0, 0xBFFFFFFF, 0x3FB504F3) + floats(WEIGHT) +
            bits(0x3EB504F3, 0x80000000) + byteArrayOf(64, 6, 4, -20, 2, -2, 1, 1) + bits(0x3FB504F3, 0x3F3504F3)

        private fun bits(vararg bits: Long): ByteArray = floats(FloatArray(bits.size) { Float.fromBits(bits[it].toInt()) })

        /** What [SCALED] and [WEIGHTS] are made of, and [unused] tensors. */
        fun scaledContainer(unused: Map<String, Pair<IntArray, FloatArray>> = mapOf()): ByteArray = container(
            mapOf(
                "weight" to (intArrayOf(2, 3) to WEIGHT), "levels" to (intArrayOf(2, 4) to LEVELS),
                "matrix" to (intArrayOf(2, 1, 3) to MATRIX), "bias" to (intArrayOf(2) to BIAS),
                "gains" to (intArrayOf(2) to BIAS),
            ) + unused,
            aliases = mapOf("twin" to "weight"),
            integers = mapOf("counts" to longArrayOf(1, 2)),
        )

        fun tokenizer(vararg types: String): ByteArray {
            val vocab = JSONObject()
            for ((id, type) in types.withIndex()) vocab.put(type, id)
            return JSONObject().put("model", JSONObject().put("vocab", vocab)).toString().toByteArray()
        }

        fun floats(values: FloatArray): ByteArray =
            ByteBuffer.allocate(4 * values.size).order(ByteOrder.LITTLE_ENDIAN).apply { asFloatBuffer().put(values) }.array()

        private fun longs(values: LongArray): ByteArray =
            ByteBuffer.allocate(8 * values.size).order(ByteOrder.LITTLE_ENDIAN).apply { asLongBuffer().put(values) }.array()

        fun sha256(content: ByteArray): String =
            MessageDigest.getInstance("SHA-256").digest(content).joinToString("") { "%02x".format(it) }

        fun deflate(content: ByteArray): ByteArray {
            val deflater = Deflater(9).apply { setInput(content); finish() }
            val buffer = ByteArray(content.size + 100)
            return buffer.copyOf(deflater.deflate(buffer)).also { deflater.end() }
        }

        fun made(content: ByteArray, residual: String): JSONObject =
            JSONObject("""{"size_bytes": ${content.size}, "sha256": "${sha256(content)}", "residual": "$residual"}""")

        /** A container of fp32 tensors, files and vectors of [integers], in the layout of `compress/FORMAT.md`. */
        fun container(
            tensors: Map<String, Pair<IntArray, FloatArray>>,
            files: Map<String, ByteArray> = mapOf(),
            aliases: Map<String, String> = mapOf(),
            integers: Map<String, LongArray> = mapOf(),
        ): ByteArray {
            val sections = tensors.mapValues { floats(it.value.second) } + integers.mapValues { longs(it.value) }
            val columns = JSONObject()
                .put("names", sections.keys.toList())
                .put("shapes", tensors.values.map { it.first.toList() } + integers.values.map { listOf(it.size) })
                .put("encodings", tensors.map { "fp32" } + integers.map { "int64" })
                .put("lengths", sections.values.map { it.size })
            val embedded = files.map { (name, content) -> JSONObject().put("name", name).put("size", content.size) }
            val header = JSONObject("""{"metadata": {}}""")
                .put("aliases", JSONObject(aliases)).put("files", embedded).put("tensors", columns)
            val raw = header.toString().toByteArray()
            val stored = deflate(files.values.fold(raw) { all, content -> all + content })
            val body = sections.values.fold(ByteArray(0)) { all, section -> all + section }
            val preamble = ByteBuffer.allocate(24).order(ByteOrder.LITTLE_ENDIAN)
            preamble.put(byteArrayOf(0x89.toByte(), 0x4C, 0x4E, 0x4C, 0x50, 0x0D, 0x0A, 0x1A))
            preamble.putInt(2).putInt(24 + stored.size + body.size + 32).putInt(stored.size).putInt(raw.size)
            val content = preamble.array() + stored + body
            return content + MessageDigest.getInstance("SHA-256").digest(content)
        }

        fun crc(content: ByteArray): Long = CRC32().apply { update(content) }.value
    }
}

/** Writes `.zip` files of stored members; the arguments of [add] let the two headers of a member lie. */
internal class ZipWriter {
    private val body = ByteArrayOutputStream()
    private val directory = ByteArrayOutputStream()
    private var members = 0

    fun add(
        name: String,
        content: ByteArray,
        flags: Int = 0,
        method: Int = 0,
        crc: Long = TestBundle.crc(content),
        extra: ByteArray = ByteArray(0),
        directoryName: String = name,
        directorySize: Int = content.size,
    ) = apply {
        val offset = body.size()
        header(body, name, content.size, flags, method, crc, extra, null)
        body.write(content)
        header(directory, directoryName, directorySize, flags, method, crc, extra, offset)
        members++
    }

    fun finish(comment: String = "", count: Int = members): ByteArray {
        val end = ByteBuffer.allocate(22 + comment.length).order(ByteOrder.LITTLE_ENDIAN)
        end.putInt(0x06054B50).putInt(0).putShort(count.toShort()).putShort(count.toShort())
        end.putInt(directory.size()).putInt(body.size()).putShort(comment.length.toShort()).put(comment.toByteArray())
        return body.toByteArray() + directory.toByteArray() + end.array()
    }

    private fun header(
        out: ByteArrayOutputStream, name: String, size: Int, flags: Int, method: Int, crc: Long, extra: ByteArray, offset: Int?,
    ) {
        val encoded = name.toByteArray()
        val fields = ByteBuffer.allocate(128 + encoded.size + extra.size).order(ByteOrder.LITTLE_ENDIAN)
        fields.putInt(if (offset == null) 0x04034B50 else 0x02014B50)
        if (offset != null) fields.putShort(0x314)
        fields.putShort(20).putShort(flags.toShort()).putShort(method.toShort()).putShort(0).putShort(0x21)
        fields.putInt(crc.toInt()).putInt(size).putInt(size).putShort(encoded.size.toShort()).putShort(extra.size.toShort())
        if (offset != null) fields.putShort(0).putShort(0).putShort(0).putInt(0x81A40000.toInt()).putInt(offset)
        fields.put(encoded).put(extra)
        out.write(fields.array(), 0, fields.position())
    }
}
