package dev.litenlp.core.bundle

/**
 * The members that a compact bundle describes instead of storing them.
 *
 * @property container File with the tensors and files that the members are made of.
 * @property recipes File with a zlib stream of the JSON document that [Recipes.parse] reads.
 * @property recipesBytes Size of that document.
 * @property exponents File with a zlib stream of what the tensors of [Recipes.scaled] are scaled by; null where none is.
 * @property codes File with a zlib stream of what was chosen for the rows or blocks of [Recipes.rounded]; null where none is.
 * @property members By name, none of them among the stored files.
 */
class Packed internal constructor(
    val container: String,
    val recipes: String,
    val recipesBytes: Long,
    val exponents: String?,
    val codes: String?,
    val members: Map<String, PackedMember>,
) {
    /** Files that serve to make the members and are not needed afterwards. */
    internal val ingredients: Set<String> =
        members.values.mapTo(listOfNotNull(container, recipes, exponents, codes).toHashSet()) { it.residual }
}

/**
 * One member, which is a prediction, XOR a residual.
 *
 * @property entry Size and hash of the member.
 * @property residual File with a zlib stream of as many bytes.
 */
class PackedMember internal constructor(val entry: FileEntry, val residual: String)

/**
 * What the predictions of the members are made of.
 *
 * @property scaled What is scaled of the tensors that members have scaled, by name, in the order of their exponents.
 * @property rounded Bits of an integer, 8 or 4, of the matrices that members have as integers, in the order of their codes.
 * @property parts Of each member, by offset and without overlaps; elsewhere the prediction is zero.
 */
internal class Recipes(val scaled: Map<String, ScaledSides>, val rounded: Map<String, Int>, val parts: Map<String, List<Part>>) {
    companion object {
        /**
         * Reads the document.
         *
         * @param packed The members that it is for.
         * @throws dev.litenlp.core.LiteNlpException `ALTERED` if it is none for exactly these.
         */
        fun parse(content: ByteArray, packed: Packed): Recipes = parseRecipes(content, packed)
    }
}

/** Whether the [rows] of a tensor are scaled, of a vector its elements, and whether its [columns] are. */
internal data class ScaledSides(val rows: Boolean, val columns: Boolean)

/** A part of a prediction from byte [offset] of the member on: a file, fp32 values, little-endian, or what they are rounded to. */
sealed class Part {
    abstract val offset: Long

    /** A file of the container, as it is. */
    data class OfFile(override val offset: Long, val file: String) : Part()

    /** A tensor of the container, row-major; [transposed]: without dimensions of size 1 a matrix, written transposed. */
    data class OfTensor(override val offset: Long, val tensor: String, val transposed: Boolean) : Part()

    /** Integers of the rows from [first] until [end] of a matrix of [Recipes.rounded]; [transposed]: written column by column. */
    data class OfIntegers(
        override val offset: Long, val tensor: String, val first: Long, val end: Long, val transposed: Boolean,
    ) : Part()

    /** Scales of those integers, as fp32 or, with [bf16], the upper halves of such numbers. */
    data class OfScales(override val offset: Long, val tensor: String, val first: Long, val end: Long, val bf16: Boolean) : Part()

    /**
     * A table of sinusoidal positions (Vaswani et al. 2017, section 3.5): a row per position, sines in the first half of the
     * columns, cosines in the second; of an odd number the last column is zero.
     */
    data class Sinusoid(override val offset: Long, val rows: Int, val columns: Int) : Part()
}
