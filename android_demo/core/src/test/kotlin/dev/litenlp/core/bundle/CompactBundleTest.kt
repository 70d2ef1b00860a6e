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
                edit(it.getJSONObject("members").getJSONObject("model.pte").getJSONArray("parts").getJSONObject(index))
            }
            install(bundle.zip())
        }
        refusedPart("part 0: eight: expected rows up to 3, found 0 to 4", 0) { it.put("rows", JSONArray("[0, 4]")) }
        refusedPart("part 2: eight: expected rows up to 3, found 2 to 1", 2) { it.put("rows", JSONArray("[2, 1]")) }
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
                it.getJSONObject("rounded").getJSONArray("tensors").getJSONObject(entry).put(key, value)
            }
            install(bundle.zip())
        }
        refusedMatrix("expected a tensor of the container, found 'none'", 1, "tensor", "none")
        refusedMatrix("bias: expected an fp32 matrix with rows of blocks of 32, found fp32 of shape [2]", 1, "tensor", "bias")
    }

    @Test
    fun `files that do not fit are refused`() {
        fun refusedPart(message: String, edit: (JSONObject) -> Unit) = refused(Problem.ALTERED, message) {
            install(
                TestBundle().compactWithTokenizer {
                    edit(it.getJSONObject("members").getJSONObject("tokenizer.json").getJSONArray("parts").getJSONObject(1))
                }.zip(),
            )
        }
        refusedPart("tokenizer.json: part 1: expected a file of the container, found 'matrix'") { it.put("file", "matrix") }
        refusedPart("tokenizer.json: part 1: expected an offset of at least 10") { it.put("offset", 9) }
        refusedPart("tokenizer.json: part 1: expected an end of at most") { it.put("offset", 11) }
        refusedPart("tokenizer.json: expected SHA-256") { it.put("file", "first") }
    }

    @Test
    fun `recipes that do not fit are refused`() {
        fun refusedRecipe(vararg parts: String, edit: (JSONObject) -> Unit) =
            refused(Problem.ALTERED, *parts) {
                install(TestBundle().compact { edit(it.getJSONObject("members").getJSONObject("model.pte")) }.zip())
            }
        fun part(member: JSONObject, index: Int) = member.getJSONArray("parts").getJSONObject(index)

        refusedRecipe("model.pte: part 1: expected an offset of at least 29, where the last one ends, found 28") {
            part(it, 1).put("offset", 28)
        }
        refusedRecipe("model.pte: part 1: expected an end of at most 89 bytes, found 60 bytes from 30 on") {
            part(it, 1).put("offset", 30)
        }
        refusedRecipe("expected an end of at most 89 bytes") { part(it, 1).put("offset", Long.MAX_VALUE) }
        refusedRecipe("expected an end of at most 89 bytes") {
            part(it, 1).getJSONObject("sinusoid").put("rows", 1 shl 24).put("columns", 1 shl 16)
        }
        refusedRecipe("model.pte: part 0: expected a tensor of the container, found 'none'") { part(it, 0).put("tensor", "none") }
        refusedRecipe("model.pte: part 0: bias: expected an fp32 matrix, found fp32 of shape [2]") { part(it, 0).put("tensor", "bias") }
        refusedRecipe("model.pte: expected SHA-256") { part(it, 0).put("transposed", false) }
        refusedRecipe("model.pte.residual: expected a zlib stream of exactly 90 bytes") { it.put("size_bytes", 90) }
        refusedRecipe("model.pte: weights.bin.residual: expected a zlib stream of exactly 89 bytes") {
            it.put("residual", "weights.bin.residual")
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
        refused(Problem.TRUNCATED, "weights.lnlp: truncated") { install(with("weights.lnlp", TestBundle.container(mapOf()).copyOf(50))) }
        val tensors = mapOf("matrix" to (intArrayOf(2, 1, 3) to TestBundle.MATRIX), "bias" to (intArrayOf(2) to TestBundle.BIAS))
        val unused = "unused" to (intArrayOf(3) to floatArrayOf(1f, 2f))
        refused(Problem.ALTERED, "weights.lnlp: tensor 'unused'") { install(with("weights.lnlp", TestBundle.container(tensors + unused))) }
        refused(Problem.NOT_A_BUNDLE, "weights.lnlp: not a container") { install(with("weights.lnlp", ByteArray(50))) }
    }
}
