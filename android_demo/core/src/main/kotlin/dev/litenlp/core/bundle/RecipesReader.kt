package dev.litenlp.core.bundle

import dev.litenlp.core.Json
import dev.litenlp.core.JsonSyntaxException

/** [Recipes.parse]. */
internal fun parseRecipes(content: ByteArray, packed: Packed): Recipes {
    fun problem(message: String) = misfit("${packed.recipes}: $message")
    val document = try {
        Json.parseObject(content, maxBytes = Limits.MAX_MANIFEST_BYTES)
    } catch (error: JsonSyntaxException) {
        throw problem("expected JSON: ${error.message}")
    }
    val fields = Fields(document, "", ::problem)
    val members = fields.section("parts")
    val parts = members.names(Limits.MAX_PACKED_MEMBERS).associateWith { members.sections(it, Limits.MAX_PARTS).map(::readPart) }
    if (parts.keys != packed.members.keys) {
        throw problem("expected recipes for ${packed.members.keys.sorted()}, found some for ${parts.keys.sorted()}")
    }
    return Recipes(
        scaled = if (fields.has("scaled")) readScaled(fields) else mapOf(),
        rounded = if (fields.has("rounded")) readRounded(fields) else mapOf(),
        parts = parts,
    )
}

private fun readScaled(fields: Fields): Map<String, ScaledSides> {
    val scaled = LinkedHashMap<String, ScaledSides>()
    for (entry in fields.sections("scaled", Limits.MAX_PARTS)) {
        val name = entry.string("tensor")
        val sides = ScaledSides(entry.flag("rows"), entry.flag("columns"))
        if (!sides.rows && !sides.columns) entry.fail("rows", "true unless columns is", false)
        if (scaled.put(name, sides) != null) entry.fail("tensor", "each once", name)
    }
    return scaled
}

private fun readRounded(fields: Fields): Map<String, Int> {
    val bits = LinkedHashMap<String, Int>()
    for (entry in fields.sections("rounded", Limits.MAX_PARTS)) {
        val name = entry.string("tensor")
        val size = entry.int("bits")
        if (size != 8 && size != 4) entry.fail("bits", "8 or 4", size)
        if (bits.put(name, size) != null) entry.fail("tensor", "each once", name)
    }
    return bits
}

/** The keys of which a part has one. */
private val PART_KINDS = listOf("tensor", "file", "integers", "scales", "sinusoid")

private fun readPart(part: Fields): Part {
    val offset = part.long("offset")
    val kind = PART_KINDS.firstOrNull(part::has) ?: "sinusoid"
    for (other in PART_KINDS) if (other != kind) part.refuse(other, "nothing beside the $kind")
    return when (kind) {
        "tensor" -> Part.OfTensor(offset, part.string("tensor"), part.flag("transposed"))
        "file" -> Part.OfFile(offset, part.string("file"))
        "integers" -> readRows(part).let {
            Part.OfIntegers(offset, part.string("integers"), it[0], it[1], part.flag("transposed"))
        }
        "scales" -> readRows(part).let { Part.OfScales(offset, part.string("scales"), it[0], it[1], part.flag("bf16")) }
        else -> part.section("sinusoid").let {
            Part.Sinusoid(offset, it.int("rows", 1, Limits.MAX_SINUSOID_ROWS), it.int("columns", 2, Limits.MAX_SINUSOID_COLUMNS))
        }
    }
}

/** False if it is left out. */
private fun Fields.flag(key: String): Boolean = has(key) && boolean(key)

/** The first row and the one behind the last. */
private fun readRows(part: Fields): LongArray {
    val rows = part.list("rows", 2)
    val read = rows.mapNotNull { (it as? Int)?.toLong() ?: it as? Long }.filter { it >= 0 }
    if (rows.size != 2 || read.size != 2) part.fail("rows", "the first and the one behind the last", rows)
    return read.toLongArray()
}
