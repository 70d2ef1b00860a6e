package dev.litenlp.core.container

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONArray
import org.json.JSONObject

/** An embedded file of [size] bytes; stored by its merges in a section of [length] bytes, or as it is where that is null. */
internal class FileSection(val name: String, val size: Long, val length: Long?)

/** A tensor as the header describes it, in a section of [length] bytes. */
internal class TensorSection(val name: String, val length: Long, val shape: IntArray, val encoding: Encoding)

/**
 * The header of a container after every field of it has been checked.
 *
 */
internal class ContainerHeader private constructor(
    val metadata: JSONObject,
    val files: List<FileSection>,
    val tensors: List<TensorSection>,
    val aliases: Map<String, String>,
) {
    /** Bytes of the files that are stored as they are, together. */
    val plainBytes: Long get() = files.filter { it.length == null }.fold(0L) { sum, file -> saturatingAdd(sum, file.size) }

    companion object {
        private const val MAX_NAME_LENGTH = 128
        private val KINDS = mapOf(
            "metadata" to JSONObject::class, "files" to JSONArray::class, "tensors" to JSONObject::class,
            "aliases" to JSONObject::class,
        )
        private val COLUMNS = listOf("names", "shapes", "encodings", "lengths")

        /**
         * @param fileBytes Size of the whole container, which the limits depend on.
         * @throws LiteNlpException `ALTERED`, or `TOO_LARGE` if it states more than a file of that size may hold.
         */
        fun parse(raw: ByteArray, fileBytes: Long): ContainerHeader {
            val content = try {
                Json.parseObject(raw, Limits.MAX_HEADER_BYTES, Limits.MAX_HEADER_VALUES)
            } catch (error: JsonSyntaxException) {
                throw LiteNlpException(Problem.ALTERED, "header: expected JSON: ${error.message}", error)
            }
            if (KINDS.any { (key, kind) -> !kind.isInstance(content.opt(key)) }) {
                throw altered("header: expected an object with ${KINDS.keys.joinToString(", ")}")
            }
            checkLimit("files", Limits.MAX_FILES.toLong(), content.getJSONArray("files").length().toLong())
            val columns = COLUMNS.map { content.getJSONObject("tensors").opt(it) as? JSONArray }
            val count = columns[0]?.length() ?: -1
            if (columns.any { it == null || it.length() != count }) {
                throw altered("header: expected tensors with ${COLUMNS.joinToString(", ")} of one length")
            }
            checkLimit("tensors", Limits.MAX_TENSORS.toLong(), count.toLong())
            checkLimit("aliases", Limits.MAX_ALIASES.toLong(), content.getJSONObject("aliases").length().toLong())
            val files = elements(content.getJSONArray("files")).map(::parseFile)
            val tensors = parseTensors(columns.map { elements(checkNotNull(it)) }, fileBytes)
            val inflated = files.fold(0L) { sum, file -> saturatingAdd(sum, file.size) }
            checkLimit("bytes of embedded files", Limits.maxFileBytes(fileBytes), inflated)
            val names = tensors.mapTo(HashSet()) { it.name }
            if (names.size != tensors.size || files.mapTo(HashSet()) { it.name }.size != files.size) {
                throw altered("header: expected every name once")
            }
            val aliases = parseAliases(content.getJSONObject("aliases"), names)
            return ContainerHeader(content.getJSONObject("metadata"), files, tensors, aliases)
        }

        private fun checkLimit(what: String, limit: Long, found: Long) {
            if (found > limit) {
                throw LiteNlpException(Problem.TOO_LARGE, "header: expected at most $limit $what, found $found")
            }
        }

        private fun parseFile(element: Any): FileSection {
            val entry = element as? JSONObject
            val name = entry?.opt("name") as? String ?: throw altered("header: expected a file with name and size, found $element")
            val size = count(entry.opt("size"))
            val length = count(entry.opt("length"))
            if (!isPlainFileName(name) || size == null || (entry.has("length") && length == null)) {
                throw altered("header: file '$name': expected a plain file name and a size")
            }
            return FileSection(name, size, length)
        }

        private fun parseTensors(columns: List<List<Any>>, fileBytes: Long): List<TensorSection> {
            val most = Limits.maxWeights(fileBytes)
            val tensors = ArrayList<TensorSection>()
            var weights = 0L
            val (names, shapes, encodings, lengths) = columns
            for (index in names.indices) {
                val name = names[index]
                val length = count(lengths[index])
                if (name !is String || length == null) {
                    throw altered("header: expected a tensor with a name and a length, found $name and ${lengths[index]}")
                }
                val shape = parseShape(shapes[index], name)
                val encoding = Encoding.values().find { it.key == encodings[index] } ?: throw altered(
                    "header: tensor '$name': expected an encoding among " +
                        "${Encoding.values().joinToString(", ") { it.key }}, found '${encodings[index]}'",
                )
                weights = saturatingAdd(weights, shape.fold(1L) { product, size -> saturatingMultiply(product, maxOf(1L, size)) })
                // A shape beyond the bound is refused below, so its sizes need not fit.
                val sizes = IntArray(shape.size) { minOf(shape[it], most).toInt() }
                tensors.add(TensorSection(name, length, sizes, encoding))
            }
            checkLimit("weights in a file of $fileBytes bytes", most, weights)
            return tensors
        }

        private fun parseShape(shape: Any?, name: String): List<Long> {
            val sizes = (shape as? JSONArray)?.let(::elements)?.map(::count)
            if (sizes == null || sizes.size > Limits.MAX_DIMENSIONS || sizes.any { it == null }) {
                throw altered("header: tensor '$name': expected a shape, found ${shape ?: "none"}")
            }
            return sizes.map { checkNotNull(it) }
        }

        private fun parseAliases(aliases: JSONObject, names: Set<String>): Map<String, String> {
            val result = LinkedHashMap<String, String>()
            for (alias in aliases.keys()) {
                val target = aliases.opt(alias)
                if (target !is String || target !in names || alias in names) {
                    throw altered("header: alias '$alias': expected a new name for a tensor, found '$target'")
                }
                result[alias] = target
            }
            return result
        }

        private fun elements(array: JSONArray): List<Any> = List(array.length()) { array.get(it) }

        /** The number if it is a whole one from 0 to 2^63 - 1, else null. */
        private fun count(value: Any?): Long? = when (value) {
            is Int -> value.toLong()
            is Long -> value
            else -> null
        }?.takeIf { it >= 0 }

        private fun isPlainFileName(name: String): Boolean =
            name.length in 1..MAX_NAME_LENGTH && name[0] != '.' &&
                name.all { it in 'a'..'z' || it in 'A'..'Z' || it in '0'..'9' || it == '.' || it == '_' || it == '-' }

        private fun saturatingMultiply(first: Long, second: Long): Long =
            if (first > Long.MAX_VALUE / second) Long.MAX_VALUE else first * second
    }
}
