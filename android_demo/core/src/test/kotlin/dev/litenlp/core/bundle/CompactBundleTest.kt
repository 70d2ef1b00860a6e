package dev.litenlp.core.bundle

import dev.litenlp.core.Problem
import org.json.JSONArray
import org.json.JSONObject
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

class CompactBundleTest : InstallerFixture() {
    @Test
    fun `a compact bundle becomes a plain one`() {
        val bundle = TestBundle().compact()
        var last = 0L to 0L
        val installed = install(bundle.zip(), progress = { done, total -> last = done to total })
        assertHolds(installed, bundle)
        assertEquals(last.second, last.first)
        val stored = bundle.files.values.sumOf { it.size } + installed.file("manifest.json").length()
        assertEquals(stored + TestBundle.WEIGHTS.size + TestBundle.PROGRAM.size, last.second)
        InstalledBundle.open(installed.directory, verify = true)
    }

    @Test
    fun `a member is made of files of the container`() {
        val installed = install(TestBundle().compactWithTokenizer().zip())
        assertArrayEquals(TestBundle().files.getValue("tokenizer.json"), installed.file("tokenizer.json").readBytes())
        assertArrayEquals(TestBundle.PROGRAM, installed.file("model.pte").readBytes())
    }

    @Test
    fun `a member is made of integers and their scales`() {
        val installed = install(TestBundle().compactWithIntegers().zip())
        val made = installed.file("model.pte").readBytes()
        assertEquals(TestBundle.INTEGERS_SHA256, TestBundle.sha256(made))
        // The last row as it is stored a second time: levels of its own step.
        assertArrayEquals(ByteArray(64) { (it % 9 - 4).toByte() }, made.copyOfRange(192, 256))
        assertEquals(setOf("model.pte"), installed.directory.list().orEmpty().filter { "pte" in it || "codes" in it }.toSet())
    }

    @Test
    fun `integers that do not fit are refused`() {
        fun refusedPart(message: String, index: Int, edit: (JSONObject) -> Unit) = refused(Problem.ALTERED, message) {
            val bundle = TestBundle().compactWithIntegers {
                edit(it.getJSONObject("parts").getJSONArray("model.pte").getJSONObject(index))
            }
            install(bundle.zip())
        }
        refusedPart("part 0: eight: expected rows up to 3, found 0 to 4", 0) { it.put("rows", JSONArray("[0, 4]")) }
        refusedPart("part 2: eight: expected rows up to 3, found 2 to 1", 2) { it.put("rows", JSONArray("[2, 1]")) }
        refusedPart("part 1: eight: expected at least a 16th of 3 rows, found 0", 1) { it.put("rows", JSONArray("[3, 3]")) }
        refusedPart("part 0: expected a matrix with integers, found 'matrix'", 0) { it.put("integers", "matrix") }
        refusedPart("part 3: four: expected integers of 8 bits to transpose", 3) { it.put("transposed", true) }
        refusedPart("part 1: expected an offset of at least 192", 1) { it.put("offset", 191) }
        refusedPart("model.pte: expected SHA-256", 0) { it.put("transposed", false) }

        fun refusedCodes(message: String, vararg codes: Int) = refused(Problem.ALTERED, message) {
            install(TestBundle().compactWithIntegers(ByteArray(codes.size) { codes[it].toByte() }).zip())
        }
        refusedCodes("weights.codes: eight: expected codes of 8 bits, found 0", 68, 0, 4, 3, 1, 0, 0, 132, 132)
        refusedCodes("weights.codes: eight: expected codes of 8 bits, found 128", 68, 128, 4, 3, 1, 0, 0, 132, 132)
        refusedCodes("weights.codes: four: expected codes of 4 bits, found 8", 68, 127, 4, 8, 1, 0, 0, 132, 132)
        refusedCodes("weights.codes: four: expected codes of 4 bits, found 136", 68, 127, 4, 3, 1, 0, 0, 132, 136)
        refusedCodes("weights.codes: expected a zlib stream of exactly 9 bytes", 68, 127, 4, 3, 1, 0, 0, 132)
        refusedCodes("weights.codes: expected a zlib stream of exactly 9 bytes", 68, 127, 4, 3, 1, 0, 0, 132, 132, 1)
        refusedCodes("model.pte: expected SHA-256", 68, 127, 4, 3, 2, 0, 0, 132, 132)

        fun refusedMatrix(message: String, entry: Int, key: String, value: Any) = refused(Problem.ALTERED, message) {
            val bundle = TestBundle().compactWithIntegers {
                it.getJSONArray("rounded").getJSONObject(entry).put(key, value)
            }
            install(bundle.zip())
        }
        refusedMatrix("expected a tensor of the container, found 'none'", 1, "tensor", "none")
        refusedMatrix("bias: expected an fp32 matrix with rows of blocks of 32, found fp32 of shape [2]", 1, "tensor", "bias")
    }

    @Test
    fun `a member is made of scaled tensors`() {
        val installed = install(TestBundle().compactWithScaled().zip())
        assertArrayEquals(TestBundle.SCALED, installed.file("model.pte").readBytes())
        val left = installed.directory.list().orEmpty().filter { "pte" in it || "codes" in it || "exponents" in it }
        assertEquals(listOf("model.pte"), left)
    }

    @Test
    fun `exponents that do not fit are refused`() {
        fun refusedExponents(message: String, exponents: ByteArray) =
            refused(Problem.ALTERED, message) { install(TestBundle().compactWithScaled(exponents).zip()) }
        fun with(index: Int, exponent: Int) = TestBundle.EXPONENTS.copyOf().also { it[index] = exponent.toByte() }
        for (exponent in listOf(127, -127, -128)) {
            refusedExponents("weight: expected exponents within 126 of zero, found $exponent", with(4, exponent))
        }
        refusedExponents("weights.exponents: gains: expected exponents within 126 of zero, found 127", with(5, 127))
        for (exponent in listOf(126, -126)) refusedExponents("model.pte: expected SHA-256", with(4, exponent))
        val message = "weights.exponents: expected a zlib stream of exactly 11 bytes"
        refusedExponents(message, TestBundle.EXPONENTS.copyOf(10))
        refusedExponents(message, TestBundle.EXPONENTS + 0)

        fun refusedScaled(message: String, entry: Int, key: String, value: Any) = refused(Problem.ALTERED, message) {
            install(TestBundle().compactWithScaled { it.getJSONArray("scaled").getJSONObject(entry).put(key, value) }.zip())
        }
        for (name in listOf("none", "twin")) {
            refusedScaled("weights.exponents: expected a tensor of the container by its own name, found '$name'", 0, "tensor", name)
        }
        refusedScaled("counts: expected an fp32 matrix or vector, found int64 of shape [2]", 1, "tensor", "counts")
        refusedScaled("gains: expected an fp32 matrix, found fp32 of shape [2]", 1, "columns", true)
        refusedScaled("matrix: expected an fp32 matrix, found fp32 of shape [2, 1, 3]", 0, "tensor", "matrix")
        refusedScaled("matrix: expected an fp32 matrix or vector, found fp32 of shape [2, 1, 3]", 1, "tensor", "matrix")
        refusedScaled("recipes.zlib: scaled.1.rows: expected true unless columns is, found false", 1, "rows", false)
        refusedScaled("recipes.zlib: scaled.1.tensor: expected each once, found weight", 1, "tensor", "weight")
        refusedScaled("recipes.zlib: scaled.0.rows: expected true or false, found 1", 0, "rows", 1)
        refused(Problem.ALTERED, "recipes.zlib: scaled: expected at most 8192 entries, found 8193") {
            install(TestBundle().compactWithScaled { it.put("scaled", JSONArray(List(8193) { JSONObject() })) }.zip())
        }
    }

    @Test
    fun `a scaled tensor that no member is made of is decoded`() {
        val bundle = TestBundle().compactWithScaled { it.getJSONArray("scaled").getJSONObject(1).put("tensor", "unused") }
        bundle.files["weights.lnlp"] = TestBundle.scaledContainer(mapOf("unused" to (intArrayOf(3) to floatArrayOf(1f, 2f))))
        refused(Problem.ALTERED, "weights.lnlp: tensor 'unused'") { install(bundle.zip()) }
    }

    @Test
    fun `files that do not fit are refused`() {
        fun refusedPart(message: String, edit: (JSONObject) -> Unit) = refused(Problem.ALTERED, message) {
            install(
                TestBundle().compactWithTokenizer { edit(it.getJSONObject(1)) }.zip(),
            )
        }
        refusedPart("tokenizer.json: part 1: expected a file of the container, found 'matrix'") { it.put("file", "matrix") }
        refusedPart("tokenizer.json: part 1: expected an offset of at least 10") { it.put("offset", 9) }
        refusedPart("tokenizer.json: part 1: expected an end of at most") { it.put("offset", 11) }
        refusedPart("tokenizer.json: expected SHA-256") { it.put("file", "first") }
    }

    @Test
    fun `recipes that do not fit are refused`() {
        fun refusedRecipe(vararg parts: String, edit: (JSONArray) -> Unit) = refused(Problem.ALTERED, *parts) {
            install(TestBundle().compact(editRecipes = { edit(it.getJSONObject("parts").getJSONArray("model.pte")) }).zip())
        }
        refusedRecipe("model.pte: part 1: expected an offset of at least 29, where the last one ends, found 28") {
            it.getJSONObject(1).put("offset", 28)
        }
        refusedRecipe("model.pte: part 1: expected an end of at most 89 bytes, found 60 bytes from 30 on") {
            it.getJSONObject(1).put("offset", 30)
        }
        refusedRecipe("expected an end of at most 89 bytes") { it.getJSONObject(1).put("offset", Long.MAX_VALUE) }
        refusedRecipe("expected an end of at most 89 bytes") {
            it.getJSONObject(1).getJSONObject("sinusoid").put("rows", 1 shl 24).put("columns", 1 shl 16)
        }
        refusedRecipe("model.pte: part 0: expected a tensor of the container, found 'none'") { it.getJSONObject(0).put("tensor", "none") }
        refusedRecipe("model.pte: part 0: bias: expected an fp32 matrix, found fp32 of shape [2]") {
            it.getJSONObject(0).put("tensor", "bias")
        }
        refusedRecipe("model.pte: expected SHA-256") { it.getJSONObject(0).put("transposed", false) }

        fun refusedMember(message: String, edit: (JSONObject) -> Unit) = refused(Problem.ALTERED, message) {
            install(TestBundle().compact { edit(it.getJSONObject("members").getJSONObject("model.pte")) }.zip())
        }
        refusedMember("model.pte.residual: expected a zlib stream of exactly 90 bytes") { it.put("size_bytes", 90) }
        refusedMember("model.pte: weights.bin.residual: expected a zlib stream of exactly 89 bytes") {
            it.put("residual", "weights.bin.residual")
        }
    }

    @Test
    fun `what is no recipe is refused`() {
        fun refusedPart(message: String, index: Int = 0, edit: (JSONObject) -> Unit) = refused(Problem.ALTERED, message) {
            val bundle = TestBundle().compact(
                editRecipes = { edit(it.getJSONObject("parts").getJSONArray("model.pte").getJSONObject(index)) },
            )
            install(bundle.zip())
        }
        refusedPart("recipes.zlib: parts.model.pte.0.offset: expected an integer of at least 0") { it.put("offset", -1) }
        refusedPart("parts.model.pte.0.transposed: expected true or false") { it.put("transposed", 1) }
        refusedPart("parts.model.pte.1.sinusoid: expected an object", 1) { it.remove("sinusoid") }
        refusedPart("parts.model.pte.1.sinusoid: expected nothing beside the tensor", 1) { it.put("tensor", "embedding") }
        refusedPart("parts.model.pte.1.file: expected nothing beside the tensor", 1) {
            it.put("tensor", "embedding").put("file", "words").remove("sinusoid")
        }
        refusedPart("parts.model.pte.1.sinusoid: expected nothing beside the file", 1) { it.put("file", "words") }
        refusedPart("parts.model.pte.1.file: expected a string", 1) { it.put("file", 1).remove("sinusoid") }
        refusedPart("parts.model.pte.1.sinusoid.columns: expected an integer from 2 to 65536, found 1", 1) {
            it.getJSONObject("sinusoid").put("columns", 1)
        }

        fun refusedRecipes(message: String, edit: (JSONObject) -> Unit) =
            refused(Problem.ALTERED, message) { install(TestBundle().compactWithIntegers(edit = edit).zip()) }
        refusedRecipes("parts.model.pte: expected at most 8192 entries, found 8193") {
            it.getJSONObject("parts").put("model.pte", JSONArray(List(8193) { at -> JSONObject().put("offset", at).put("tensor", "t") }))
        }
        refusedRecipes("recipes.zlib: expected recipes for [model.pte, weights.bin], found some for [weights.bin]") {
            it.getJSONObject("parts").remove("model.pte")
        }
        refusedRecipes("rounded.0.bits: expected 8 or 4, found 2") { it.getJSONArray("rounded").getJSONObject(0).put("bits", 2) }
        refusedRecipes("rounded.1.tensor: expected each once, found eight") {
            it.getJSONArray("rounded").getJSONObject(1).put("tensor", "eight")
        }
        refusedRecipes("parts.model.pte.0.scales: expected nothing beside the integers") {
            it.getJSONObject("parts").getJSONArray("model.pte").getJSONObject(0).put("scales", "eight")
        }
        for (rows in listOf("[0]", "[0, 1, 2]", "[-1, 2]", "[0, true]", "[0.5, 1]")) {
            refusedRecipes("parts.model.pte.0.rows: expected") {
                it.getJSONObject("parts").getJSONArray("model.pte").getJSONObject(0).put("rows", JSONArray(rows))
            }
        }
    }

    @Test
    fun `ingredients that are damaged in themselves are named`() {
        fun with(name: String, content: ByteArray) = TestBundle().compact().also { it.files[name] = content }.zip()
        val residual = TestBundle.deflate(ByteArray(TestBundle.PROGRAM.size))
        refused(Problem.ALTERED, "model.pte.residual: expected a zlib stream") { install(with("model.pte.residual", ByteArray(20) { 7 })) }
        refused(Problem.ALTERED, "stream of exactly 89 bytes") { install(with("model.pte.residual", residual.copyOf(residual.size - 1))) }
        refused(Problem.ALTERED, "stream of exactly 89 bytes") { install(with("model.pte.residual", residual + 0)) }
        refused(Problem.ALTERED, "stream of exactly 89 bytes") { install(with("model.pte.residual", TestBundle.deflate(ByteArray(90)))) }
        refused(Problem.ALTERED, "model.pte: expected SHA-256") { install(with("model.pte.residual", residual)) }
        refused(Problem.ALTERED, "recipes.zlib: expected a zlib stream") { install(with("recipes.zlib", ByteArray(20) { 7 })) }
        refused(Problem.ALTERED, "recipes.zlib: expected a zlib stream of exactly") { install(with("recipes.zlib", residual)) }
        refused(Problem.TRUNCATED, "weights.lnlp: truncated") { install(with("weights.lnlp", TestBundle.container(mapOf()).copyOf(50))) }
        val tensors = mapOf("matrix" to (intArrayOf(2, 1, 3) to TestBundle.MATRIX), "bias" to (intArrayOf(2) to TestBundle.BIAS))
        val unused = "unused" to (intArrayOf(3) to floatArrayOf(1f, 2f))
        refused(Problem.ALTERED, "weights.lnlp: tensor 'unused'") { install(with("weights.lnlp", TestBundle.container(tensors + unused))) }
        refused(Problem.NOT_A_BUNDLE, "weights.lnlp: not a container") { install(with("weights.lnlp", ByteArray(50))) }
    }
}
