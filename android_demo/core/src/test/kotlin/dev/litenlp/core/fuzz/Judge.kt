package dev.litenlp.core.fuzz

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.BundleInstaller
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.container.Container
import dev.litenlp.core.container.Tensor
import dev.litenlp.core.tokenizer.Tokenizer
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.PrintStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.file.Files
import java.security.MessageDigest
import org.json.JSONArray
import org.json.JSONObject

/** What a refusal may be; the other problems have causes outside of the file. */
private val REFUSALS = setOf(
    Problem.NOT_A_BUNDLE, Problem.TRUNCATED, Problem.ALTERED, Problem.NEWER_SCHEMA, Problem.OTHER_TASK, Problem.OTHER_TOKENIZER,
    Problem.TOO_LARGE, Problem.UNSUPPORTED,
)

private const val MAX_BUNDLE_BYTES = 1L shl 30

/** A screen of 80 columns. */
private const val MAX_MESSAGE_LENGTH = 2000

/** Of what a file of N bytes may cost; memory is bounded by the virtual machine's heap. */
private const val MAX_SECONDS = 10.0
private const val SECONDS_PER_BYTE = 1e-6

/**
 * The verdicts of this library on files, for `make fuzz`: takes lines `KIND<tab>PATH` and answers each with a line of JSON, as
 * `tests/fuzz/judge.py` does for the Python package. The arguments are the texts that tokenizers encode.
 */
fun main(arguments: Array<String>) {
    val answers = System.out
    val printed = ByteArrayOutputStream()
    System.setOut(PrintStream(printed, true))
    for (line in System.`in`.bufferedReader(Charsets.UTF_8).lineSequence()) {
        val (kind, path) = line.split('\t')
        val file = File(path)
        printed.reset()
        val started = System.nanoTime()
        var (outcome, detail) = judge(kind, file, arguments.toList())
        val seconds = (System.nanoTime() - started) / 1e9
        val problem = when {
            outcome == "refused" && detail.length > MAX_MESSAGE_LENGTH -> "a message of ${detail.length} characters"
            printed.size() > 0 -> "${printed.size()} bytes printed on stdout"
            seconds > MAX_SECONDS + SECONDS_PER_BYTE * file.length() -> "%.1f s for %d bytes".format(seconds, file.length())
            else -> null
        }
        if (problem != null && outcome != "finding") {
            outcome = "finding"
            detail = problem
        }
        // ASCII alone, whatever the platform's encoding.
        val answer = JSONObject().put("outcome", outcome).put("detail", detail).put("seconds", seconds).put("peak", 0).toString()
        answers.println(answer.map { if (it in ' '..'~') it.toString() else "\\u%04x".format(it.code) }.joinToString(""))
        answers.flush()
    }
}

private fun judge(kind: String, file: File, texts: List<String>): Pair<String, String> = try {
    "accepted" to read(kind, file, texts)
} catch (error: LiteNlpException) {
    (if (error.problem in REFUSALS) "refused" else "finding") to "${error.problem}: ${error.message}"
} catch (error: JsonSyntaxException) {
    "refused" to error.message.orEmpty()
} catch (error: Throwable) {
    // Whatever else is thrown is what is looked for, the end of the memory or of the stack included.
    "finding" to "$error".take(500) + " at ${error.stackTrace.firstOrNull()}"
}

private fun read(kind: String, file: File, texts: List<String>): String = when (kind) {
    "container" -> digest(Container.parse(file.readBytes()))
    "bundle" -> encode(install(file), texts)
    "manifest" -> Manifest.parse(file.readBytes()).name
    "tokenizer" -> encode(file.readBytes(), texts)
    "json" -> hex(MessageDigest.getInstance("SHA-256").digest(canonical(Json.parseObject(file.readBytes()))))
    else -> throw IllegalArgumentException("$kind: expected a kind of file that this library reads")
}

private fun digest(container: Container): String {
    val digest = MessageDigest.getInstance("SHA-256")
    for (tensor in container.tensors.values) {
        val type = if (tensor.isInteger) "int64" else "float32"
        digest.update("${tensor.name} ${tensor.shape.contentToString()} $type\n".toByteArray())
        addValues(digest, tensor)
    }
    for ((name, content) in container.files) digest.update(name.toByteArray() + content)
    return "${hex(digest.digest())} ${container.aliases.size}"
}

/** Adds the weights, little-endian, in blocks: a copy of all of them would count as memory of the reader. */
private fun addValues(digest: MessageDigest, tensor: Tensor) {
    val block = ByteBuffer.allocate(1 shl 16).order(ByteOrder.LITTLE_ENDIAN)
    val flush = {
        digest.update(block.array(), 0, block.position())
        block.clear()
    }
    if (tensor.isInteger) {
        for (value in tensor.decodeLongs()) if (block.putLong(value).remaining() == 0) flush()
    } else {
        for (value in tensor.decodeFloats()) if (block.putInt(value.toRawBits()).remaining() == 0) flush()
    }
    flush()
}

/** Installs a bundle as the app does; the content of its tokenizer. */
private fun install(file: File): ByteArray {
    val models = Files.createTempDirectory("fuzz").toFile()
    try {
        val bundle = file.inputStream().use { source ->
            BundleInstaller.install(source, models, MAX_BUNDLE_BYTES, { models.usableSpace }, { _, _ -> }, { false })
        }
        return File(bundle.directory, Manifest.TOKENIZER_FILE).readBytes()
    } finally {
        models.deleteRecursively()
    }
}

private fun encode(tokenizer: ByteArray, texts: List<String>): String {
    val read = Tokenizer.fromJson(tokenizer)
    return texts.joinToString(";") { read.encode(it).joinToString(",") }
}

/** A value of JSON as bytes that say everything about it: keys sorted, numbers by their bits. */
private fun canonical(value: Any): ByteArray = when (value) {
    JSONObject.NULL -> "n".toByteArray()
    is Boolean -> (if (value) "t" else "f").toByteArray()
    is Double -> ByteBuffer.allocate(9).put('d'.code.toByte()).putDouble(value).array()
    is Number -> "i$value;".toByteArray()
    is String -> value.toByteArray().let { "s${it.size}:".toByteArray() + it }
    is JSONArray -> joined("[", (0 until value.length()).map { canonical(value.get(it)) }, "]")
    is JSONObject -> joined(
        "{", value.keys().asSequence().map { canonical(it) to canonical(value.get(it)) }.sortedBy { hex(it.first) }
            .map { it.first + it.second }.toList(), "}",
    )
    else -> throw IllegalArgumentException("expected a value of JSON, found ${value.javaClass}")
}

private fun joined(start: String, parts: List<ByteArray>, end: String): ByteArray =
    ByteArrayOutputStream().apply { write(start.toByteArray()); parts.forEach(::write); write(end.toByteArray()) }.toByteArray()

private fun hex(bytes: ByteArray): String = bytes.joinToString("") { "%02x".format(it) }
