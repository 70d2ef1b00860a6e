package dev.litenlp.core.bundle

import dev.litenlp.core.Problem
import dev.litenlp.core.assertProblem
import org.json.JSONArray
import org.json.JSONObject
import org.json.JSONTokener
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test

class ManifestTest {
    private fun manifest(change: (JSONObject) -> Unit = {}): Manifest =
        Manifest.parse(TestBundle().also { it.change = change }.manifest())

    private fun refused(vararg parts: String, problem: Problem = Problem.NOT_A_BUNDLE, change: (JSONObject) -> Unit) =
        assertProblem(problem, "manifest.json", *parts) { manifest(change) }

    @Test
    fun `every precision is read`() {
        for (precision in listOf("fp32", "int8", "mixed")) assertEquals(precision, manifest { it.put("precision", precision) }.precision)
    }

    @Test
    fun `every field is read`() {
        val manifest = manifest()
        assertEquals(1, manifest.schemaVersion)
        assertEquals("tiny", manifest.name)
        assertEquals(mapOf("lite_nlp" to "0.1.0"), manifest.versions)
        assertEquals("fp32", manifest.precision)
        assertEquals(Languages("en", "de"), manifest.languages)
        assertEquals(Vocabulary(4, 4, 0, 1, 2), manifest.vocabulary)
        assertEquals(Bounds(16, 32, 8, 3), manifest.bounds)
        assertNull(manifest.decoding)
        assertEquals(listOf("position", "mask", "key", "cache"), manifest.state.map { it.name })
        assertEquals(listOf(ElementType.INT64, ElementType.BOOL, ElementType.FLOAT32, ElementType.FLOAT32), manifest.state.map { it.type })
        assertEquals(listOf(Origin.ZEROS, Origin.SRC_MASK, Origin.ENCODE, Origin.ZEROS), manifest.state.map { it.origin })
        assertEquals(listOf(Dimension.BATCH, Dimension.Fixed(4), Dimension.SOURCE, Dimension.Fixed(2)), manifest.state[2].shape)
        assertEquals(listOf(3, 9), manifest.state[3].shape.map { it.resolve(batch = 3, source = 5, capacity = 9) })
        assertEquals(listOf(3, 5), manifest.state[1].shape.map { it.resolve(batch = 3, source = 5, capacity = 9) })
        assertEquals(listOf("key"), manifest.encoded)
        assertEquals(listOf("position", "cache"), manifest.changing)
        val operators = listOf("com.microsoft::GroupQueryAttention")
        assertEquals(
            OnnxEntry("encode.onnx", "decode_step.onnx", "greedy.onnx", "beam.onnx", "weights.bin", "new.", operators, "1.24"),
            manifest.onnx,
        )
        assertEquals(ExecuTorchEntry("model.pte"), manifest.executorch)
        assertEquals(12, manifest.budget.getInt("params"))
        assertTrue(manifest.graphs.has("onnx"))
        assertEquals(39.5, manifest.scores.getJSONObject("test").getDouble("bleu"))
        assertEquals(FileEntry(TestBundle.sha256(TestBundle.WEIGHTS), TestBundle.WEIGHTS.size.toLong()), manifest.files["weights.bin"])
        assertEquals(manifest.files, manifest.plainFiles)
        assertNull(manifest.packed)
    }

    @Test
    fun `a call encodes two sources if the manifest does not say how many`() {
        assertEquals(2, manifest { it.getJSONObject("bounds").remove("executorch_sources") }.bounds.executorchSources)
        refused("bounds.executorch_sources: expected an integer") { it.getJSONObject("bounds").put("executorch_sources", 0) }
    }

    @Test
    fun `a program may hold the state of a row itself`() {
        for (told in listOf(true, false)) {
            val found = manifest { it.getJSONObject("executorch").put("in_place", told) }.executorch
            assertEquals(ExecuTorchEntry("model.pte", inPlace = told), found)
        }
        refused("executorch.rows_in_place: expected true or false") { it.getJSONObject("executorch").put("rows_in_place", 1) }
        for ((calls, message) in listOf(
            """{"encode": {"delegated": 1}}""" to "executorch.calls.encode.kernels: expected an object",
            """{"encode": {"delegated": -1, "kernels": {}}}""" to "executorch.calls.encode.delegated: expected an integer",
            """{"encode": {"delegated": 1, "kernels": {"aten::mm.out": 2147483648}}}""" to "kernels.aten::mm.out: expected an integer",
            """[]""" to "executorch.calls: expected an object",
        )) {
            refused(message) { it.getJSONObject("executorch").put("calls", JSONTokener(calls).nextValue()) }
        }
        refused("executorch.in_place: expected true or false, found yes") { it.getJSONObject("executorch").put("in_place", "yes") }
    }

    @Test
    fun `what belongs to another task is refused, as in Python`() {
        for (absent in listOf("""{"classes": null, "programs": {}}""", """{"programs": {"onnx": null}}""")) {
            val sections = JSONObject(absent)
            assertEquals("tiny", manifest { for (key in sections.keys()) it.put(key, sections.get(key)) }.name)
        }
        refused("classes: expected none") { it.put("classes", JSONObject("""{"labels": ["a", "b"], "sentences": 1}""")) }
        refused("programs.onnx: expected none") {
            it.put("programs", JSONObject("""{"onnx": {"graphs": {"score": "encode.onnx"}, "weights": "weights.bin"}}"""))
        }
        refused("programs: expected an object") { it.put("programs", JSONObject.NULL) }
    }

    @Test
    fun `a compact bundle has other files once it is installed`() {
        var recipes = ByteArray(0)
        val bundle = TestBundle().compact(editRecipes = { recipes = it.toString().toByteArray() })
        val manifest = Manifest.parse(bundle.manifest())
        val packed = checkNotNull(manifest.packed)
        assertEquals("weights.lnlp", packed.container)
        assertEquals(setOf("weights.bin", "model.pte"), packed.members.keys)
        val member = packed.members.getValue("model.pte")
        assertEquals("model.pte.residual", member.residual)
        assertEquals("recipes.zlib" to recipes.size.toLong(), packed.recipes to packed.recipesBytes)
        val parts = Recipes.parse(recipes, packed).parts
        assertEquals(listOf(Part.OfTensor(5, "matrix", true), Part.Sinusoid(29, 3, 5)), parts["model.pte"])
        assertEquals(Part.OfTensor(28, "bias", false), parts.getValue("weights.bin")[1])
        assertEquals(
            setOf("tokenizer.json", "config.toml", "weights.bin", "model.pte") +
                listOf("encode", "decode_step", "greedy", "beam").map { "$it.onnx" },
            manifest.plainFiles.keys,
        )
        assertEquals(TestBundle.PROGRAM.size.toLong(), manifest.plainFiles.getValue("model.pte").sizeBytes)
    }

    @Test
    fun `what may be missing`() {
        val manifest = manifest {
            for (key in listOf("languages", "onnx", "budget", "graphs", "scores", "parity")) it.remove(key)
            it.put("executorch", JSONObject.NULL).put("key of a later version", 1)
            for (key in listOf("pad_id", "bos_id", "eos_id")) it.getJSONObject("vocabulary").remove(key)
        }
        assertNull(manifest.languages)
        assertNull(manifest.onnx)
        assertNull(manifest.executorch)
        assertEquals(0, manifest.budget.length() + manifest.graphs.length() + manifest.scores.length())
        assertEquals(Vocabulary(4, 4, 0, 1, 2), manifest.vocabulary)
    }

    @Test
    fun `how output is searched for`() {
        val said = """{"length_penalty": 1, "no_repeat_ngram": 3, "min_length": 2, "max_length": 0, "long_input": "truncate",
            "max_source_tokens": 512}"""
        assertEquals(DecodingDefaults(1.0, 3, 2, 0, true, 512), manifest { it.put("decoding", JSONObject(said)) }.decoding)
        val wrong = mapOf("length_penalty" to -0.5, "no_repeat_ngram" to -1, "long_input" to "drop", "max_source_tokens" to 0)
        for ((key, value) in wrong) {
            refused("decoding.$key", "$value") { it.put("decoding", JSONObject(said).put(key, value)) }
            refused("decoding.$key", "nothing") { it.put("decoding", JSONObject(said).apply { remove(key) }) }
        }
    }

    @Test
    fun `a model that does not translate is told from no manifest`() {
        assertEquals("tiny", manifest { it.put("task", "translation") }.name)
        refused("expected a bundle for translation, found one for classification", problem = Problem.OTHER_TASK) {
            it.put("task", "classification").put("onnx", JSONObject.NULL).put("programs", JSONObject())
        }
        refused("task: expected a string") { it.put("task", 1) }
        refused("task: expected a string") { it.put("task", JSONObject.NULL) }
    }

    @Test
    fun `a newer schema is told from no manifest`() {
        refused("expected schema_version 1, found 2", problem = Problem.NEWER_SCHEMA) { it.put("schema_version", 2) }
        refused("found 99999999999", problem = Problem.NEWER_SCHEMA) { it.put("schema_version", 99_999_999_999L).remove("state") }
        refused("schema_version: expected 1, found 0") { it.put("schema_version", 0) }
        refused("schema_version: expected an integer") { it.put("schema_version", "1") }
    }

    @Test
    fun `a field of another type is named`() {
        refused("name: expected a string, found 5") { it.put("name", 5) }
        refused("name: expected a string, found nothing") { it.remove("name") }
        refused("versions.opset: expected a string") { it.getJSONObject("versions").put("opset", 20) }
        refused("precision: expected fp32, int8 or mixed, found fp64") { it.put("precision", "fp64") }
        refused("onnx.greedy: expected a string, found nothing") { it.getJSONObject("onnx").remove("greedy") }
        refused("onnx.operators: expected a list") { it.getJSONObject("onnx").put("operators", "Loop") }
        refused("onnx.operators: expected strings, found 3") { it.getJSONObject("onnx").put("operators", JSONArray(listOf(3))) }
        refused("onnx.operators: expected at most 64 entries, found 65") {
            it.getJSONObject("onnx").put("operators", JSONArray(List(65) { "a" }))
        }
        refused("onnx.oldest_runtime: expected a version such as 1.24, found 1") { it.getJSONObject("onnx").put("oldest_runtime", "1") }
        refused("languages.tgt: expected a string") { it.getJSONObject("languages").remove("tgt") }
        refused("vocabulary.src_size: expected an integer from 1 to 524288, found 0") {
            it.getJSONObject("vocabulary").put("src_size", 0)
        }
        refused("vocabulary.pad_id: expected an integer") { it.getJSONObject("vocabulary").put("pad_id", JSONObject.NULL) }
        refused("bounds.capacity: expected an integer from 1 to 65536, found true") { it.getJSONObject("bounds").put("capacity", true) }
        refused("bounds.source: expected an integer from 1 to 65536, found 1.5") { it.getJSONObject("bounds").put("source", 1.5) }
        refused("state: expected a list") { it.put("state", JSONObject()) }
        refused("state.0: expected an object") { it.getJSONArray("state").put(0, 3) }
        refused("state.2.dtype: expected float32, int64 or bool, found float16") {
            it.getJSONArray("state").getJSONObject(2).put("dtype", "float16")
        }
        refused("state.2.origin") { it.getJSONArray("state").getJSONObject(2).put("origin", "ones") }
        refused("state.2.changes: expected true or false, found 1") { it.getJSONArray("state").getJSONObject(2).put("changes", 1) }
        for (size in listOf("rows", -1, 2.5, true, 1L shl 40)) {
            refused("state.0.shape: expected sizes") {
                it.getJSONArray("state").getJSONObject(0).put("shape", JSONArray(listOf(size)))
            }
        }
        refused("onnx.new_prefix") { it.getJSONObject("onnx").remove("new_prefix") }
        refused("budget: expected an object") { it.put("budget", 3) }
        refused("graphs.onnx: expected an object") { it.getJSONObject("graphs").put("onnx", 3) }
        refused("files.model.pte.sha256: expected 64 hexadecimal digits") {
            it.getJSONObject("files").getJSONObject("model.pte").put("sha256", "00")
        }
        refused("files.model.pte.size_bytes: expected an integer of at least 0, found -1") {
            it.getJSONObject("files").getJSONObject("model.pte").put("size_bytes", -1)
        }
    }

    @Test
    fun `work that cannot be read is refused`() {
        assertProblem(Problem.UNSUPPORTED, "magic") {
            manifest { it.getJSONObject("graphs").getJSONObject("onnx").getJSONObject("encode").put("magic", JSONArray()) }
        }
    }

    @Test
    fun `members that are missing are named`() {
        refused("expected an entry for config.toml, model.pte, found none") {
            it.getJSONObject("files").remove("config.toml")
            it.getJSONObject("files").remove("model.pte")
        }
    }

    @Test
    fun `names that are paths are refused`() {
        for (name in listOf("../x", "..", ".", "", "a/b", "a\\b", "C:x", "a\u0000b", "manifest.json", "x".repeat(256))) {
            refused("expected plain member names") { it.getJSONObject("files").put(name, it.getJSONObject("files").get("model.pte")) }
        }
    }

    @Test
    fun `recipes are checked`() {
        fun compactRefused(vararg parts: String, problem: Problem = Problem.NOT_A_BUNDLE, edit: (JSONObject) -> Unit) =
            assertProblem(problem, *parts) { Manifest.parse(TestBundle().compact(edit = edit).manifest()) }
        fun member(packed: JSONObject) = packed.getJSONObject("members").getJSONObject("model.pte")

        compactRefused("expected an entry for other.lnlp") { it.put("container", "other.lnlp") }
        compactRefused("expected an entry for other.residual") { member(it).put("residual", "other.residual") }
        compactRefused("expected an entry for tokenizer.json") { member(it).put("residual", "tokenizer.json") }
        compactRefused("encode.onnx in both") { it.getJSONObject("members").put("encode.onnx", member(it)) }
        compactRefused("expected plain file names, found '../x'") { it.getJSONObject("members").put("../x", member(it)) }
        compactRefused("expected an entry for other.zlib") { it.getJSONObject("recipes").put("file", "other.zlib") }
        compactRefused("expected an entry for other.codes") { it.put("codes", "other.codes") }
        compactRefused("expected an entry for other.exponents") { it.put("exponents", "other.exponents") }
        compactRefused("packed.exponents: expected a string, found 1") { it.put("exponents", 1) }
        compactRefused("packed.recipes.size_bytes: expected an integer from 0 to 4000000") {
            it.getJSONObject("recipes").put("size_bytes", 4_000_001)
        }
        compactRefused("packed.recipes: expected an object") { it.remove("recipes") }
        compactRefused("bytes of made members, found at least", problem = Problem.TOO_LARGE) {
            member(it).put("size_bytes", 100 shl 20)
        }
        compactRefused("found one of 9223372036854775807", problem = Problem.TOO_LARGE) { member(it).put("size_bytes", Long.MAX_VALUE) }
        compactRefused("expected at most 16 entries, found 18") {
            for (number in 0 until 16) it.getJSONObject("members").put("m$number", member(it))
        }
    }

    @Test
    fun `state that makes no sense or fits no memory is refused`() {
        fun tensor(manifest: JSONObject, index: Int) = manifest.getJSONArray("state").getJSONObject(index)

        refused("expected names that differ") { tensor(it, 3).put("name", "position") }
        refused("expected names that differ") { tensor(it, 3).put("name", "tokens") }
        refused("expected a name, found none") { tensor(it, 3).put("name", "") }
        refused("expected at most 256 characters") { tensor(it, 3).put("name", "x".repeat(257)) }
        refused("expected the batch as first dimension alone") { tensor(it, 3).put("shape", JSONArray(listOf("capacity", "batch"))) }
        refused("expected the batch as first dimension alone") { tensor(it, 3).put("shape", JSONArray()) }
        refused("expected the mask as a bool tensor") { tensor(it, 1).put("dtype", "int64") }
        refused("begins as zeros changes") { tensor(it, 3).put("changes", false) }
        refused("expected at most 8 entries, found 9") { tensor(it, 3).put("shape", JSONArray(listOf("batch") + List(8) { 1 })) }
        refused("at most 268435456 bytes for a row") { tensor(it, 3).put("shape", JSONArray(listOf("batch", 1 shl 14, 1 shl 13))) }
        refused("at most 268435456 bytes for a row") {
            it.getJSONObject("bounds").put("capacity", 65536)
            tensor(it, 3).put("shape", JSONArray(listOf("batch", "capacity", 1025)))
        }
        refused("shape: expected sizes") { tensor(it, 3).put("shape", JSONArray(listOf("batch", (1 shl 28) + 1))) }
        refused("state: expected at most 256 entries, found 257") {
            it.put("state", JSONArray(List(257) { JSONObject() }))
        }
    }

    @Test
    fun `lists and words are bounded`() {
        refused("versions: expected at most 64 entries, found 65") {
            it.put("versions", JSONObject(List(65) { number -> "$number" to "1" }.toMap()))
        }
        refused("files: expected at most 64 entries") {
            for (number in 0 until 64) it.getJSONObject("files").put("f$number", it.getJSONObject("files").get("model.pte"))
        }
        refused("scores.test: expected an object") { it.put("scores", JSONObject().put("test", 3)) }
        refused("parity: expected an object") { it.put("parity", 3) }
        refused("expected at most 64 entries, found 65") {
            val encode = it.getJSONObject("graphs").getJSONObject("onnx").getJSONObject("encode")
            encode.put("matmul", JSONArray(List(65) { JSONArray(listOf(1, 1, 0)) }))
        }
        refused("name: expected at most 256 characters") { it.put("name", "\uD83D\uDE00".repeat(257)) }
        assertEquals(512, manifest { it.put("name", "\uD83D\uDE00".repeat(256)) }.name.length)
        assertProblem(Problem.TOO_LARGE, "tokenizer.json of at most") {
            manifest { it.getJSONObject("files").getJSONObject("tokenizer.json").put("size_bytes", 1 shl 30) }
        }
        assertProblem(Problem.TOO_LARGE, "config.toml of at most 4194304 bytes") {
            manifest { it.getJSONObject("files").getJSONObject("config.toml").put("size_bytes", 1 shl 30) }
        }
    }

    @Test
    fun `no JSON`() {
        assertProblem(Problem.NOT_A_BUNDLE, "manifest.json: expected JSON") { Manifest.parse("{".toByteArray()) }
        assertProblem(Problem.NOT_A_BUNDLE, "precision: expected a string, found nothing") {
            Manifest.parse("""{"schema_version": 1}""".toByteArray())
        }
    }
}
