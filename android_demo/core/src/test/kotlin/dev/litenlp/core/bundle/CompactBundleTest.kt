package dev.litenlp.core.bundle

import dev.litenlp.core.Problem
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
