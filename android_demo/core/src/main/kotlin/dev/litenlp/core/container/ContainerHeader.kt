package dev.litenlp.core.container

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONArray
import org.json.JSONObject

/** A section of [length] bytes with the checksum [crc32]: a file or a tensor. */
internal interface SectionEntry {
    val name: String
    val length: Long
    val crc32: Long
}

/** An embedded file of [size] bytes, once inflated. */
internal class FileSection(
    override val name: String,
    override val length: Long,
    override val crc32: Long,
    val size: Long,
) : SectionEntry

/** A tensor as the header describes it. */
internal class TensorSection(
    override val name: String,
    override val length: Long,
    override val crc32: Long,
    val shape: IntArray,
    val encoding: Encoding,
) : SectionEntry

/**
 * The header of a container after every field of it has been checked.
 *
 * @property end Offset of the byte after the header, where the first section begins.
 */
internal class ContainerHeader private constructor(
    val metadata: JSONObject,
    val files: List<FileSection>,
    val tensors: List<TensorSection>,
    val aliases: Map<String, String>,
    val end: Int,
) {
    companion object {
        private const val MAX_NAME_LENGTH = 128
        private val KINDS = mapOf(
            "metadata" to JSONObject::class, "files" to JSONArray::class, "tensors" to JSONArray::class,
            "aliases" to JSONObject::class,
        )

        /**
         * @param fileBytes Size of the whole container, which the limits depend on.
         * @throws LiteNlpException `ALTERED`, or `TOO_LARGE` if it states more than a file of that size may hold.
         */
        fun parse(raw: ByteArray, end: Int, fileBytes: Long): ContainerHeader {
            val content = try {
                Json.parseObject(raw, Limits.MAX_HEADER_BYTES, Limits.MAX_HEADER_VALUES)
            } catch (error: JsonSyntaxException) {
                throw LiteNlpException(Problem.ALTERED, "header: expected JSON: ${error.message}", error)
            }
            if (KINDS.any { (key, kind) -> !kind.isInstance(content.opt(key)) }) {
                throw altered("header: expected an object with ${KINDS.keys.joinToString(", ")}")
            }
            checkLimit("files", Limits.MAX_FILES.toLong(), content.getJSONArray("files").length().toLong())
            checkLimit("tensors", Limits.MAX_TENSORS.toLong(), content.getJSONArray("tensors").length().toLong())
            checkLimit("aliases", Limits.MAX_ALIASES.toLong(), content.getJSONObject("aliases").length().toLong())
            val files = elements(content.getJSONArray("files")).map(::parseFile)
            val tensors = parseTensors(content.getJSONArray("tensors"), fileBytes)
            val inflated = files.fold(0L) { sum, file -> saturatingAdd(sum, file.size) }
            checkLimit("bytes of embedded files", Limits.maxFileBytes(fileBytes), inflated)
            val names = tensors.mapTo(HashSet()) { it.name }
            if (names.size != tensors.size || files.mapTo(HashSet()) { it.name }.size != files.size) {
                throw altered("header: expected every name once")
            }
            val aliases = parseAliases(content.getJSONObject("aliases"), names)
            return ContainerHeader(content.getJSONObject("metadata"), files, tensors, aliases, end)
        }

        private fun checkLimit(what: String, limit: Long, found: Long) {
            if (found > limit) {
                throw LiteNlpException(Problem.TOO_LARGE, "header: expected at most $limit $what, found $found")
            }
        }

        private fun parseFile(element: Any): FileSection {
            val entry = checkedEntry(element, "file")
            val name = entry.getString("name")
            val size = count(entry.opt("size"))
            if (!isPlainFileName(name) || size == null) {
                throw altered("header: file '$name': expected a plain file name and a size")
            }
            return FileSection(name, entry.getLong("length"), entry.getLong("crc32"), size)
        }

        private fun parseTensors(elements: JSONArray, fileBytes: Long): List<TensorSection> {
            val most = Limits.maxWeights(fileBytes)
            val tensors = ArrayList<TensorSection>()
            var weights = 0L
            for (element in elements(elements)) {
                val entry = checkedEntry(element, "tensor")
                val name = entry.getString("name")
                val shape = parseShape(entry.opt("shape"), name)
                val encoding = Encoding.values().find { it.key == entry.opt("encoding") } ?: throw altered(
                    "header: tensor '$name': expected an encoding among " +
                        "${Encoding.values().joinToString(", ") { it.key }}, found '${entry.opt("encoding")}'",
                )
                weights = saturatingAdd(weights, shape.fold(1L) { product, size -> saturatingMultiply(product, maxOf(1L, size)) })
                // A shape beyond the bound is refused below, so its sizes need not fit.
                val sizes = IntArray(shape.size) { minOf(shape[it], most).toInt() }
                tensors.add(TensorSection(name, entry.getLong("length"), entry.getLong("crc32"), sizes, encoding))
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

        private fun checkedEntry(element: Any, what: String): JSONObject {
            val entry = element as? JSONObject
            if (entry?.opt("name") !is String || count(entry.opt("length")) == null || count(entry.opt("crc32")) == null) {
                throw altered("header: expected a $what with name, length and crc32, found $element")
            }
            return entry
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
