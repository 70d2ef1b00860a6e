package dev.litenlp.core.bundle

/**
 * The members that a compact bundle describes instead of storing them.
 *
 * @property container File with the tensors and files that the members are made of.
 * @property rounded Matrices that the members have as integers; null where they have none.
 * @property members By name, none of them among the stored files.
 */
class Packed internal constructor(val container: String, val rounded: Rounded?, val members: Map<String, PackedMember>) {
    /** Files that serve to make the members and are not needed afterwards. */
    internal val ingredients: Set<String> =
        members.values.mapTo(listOfNotNull(container, rounded?.codes).toHashSet()) { it.residual }
}

/**
 * Matrices of the container of which members have integers.
 *
 * @property codes File with a zlib stream of what was chosen for their rows or blocks, one matrix after another.
 * @property bits Of an integer of each, 8 or 4, by name, in the order of their codes.
 */
class Rounded internal constructor(val codes: String, val bits: Map<String, Int>)

/**
 * Recipe of one member: a prediction, XOR a residual.
 *
 * @property entry Size and hash of the member.
 * @property residual File with a zlib stream of as many bytes.
 * @property parts What the prediction is made of, by offset and without overlaps; elsewhere it is zero.
 */
class PackedMember internal constructor(val entry: FileEntry, val residual: String, val parts: List<Part>)

/** A part of a prediction from byte [offset] of the member on: a file, fp32 values, little-endian, or what they are rounded to. */
sealed class Part {
    abstract val offset: Long

    /** A file of the container, as it is. */
    data class OfFile(override val offset: Long, val file: String) : Part()

    /** A tensor of the container, row-major; [transposed]: without dimensions of size 1 a matrix, written transposed. */
    data class OfTensor(override val offset: Long, val tensor: String, val transposed: Boolean) : Part()

    /** Integers of the rows from [first] until [end] of a matrix of [Packed.rounded]; [transposed]: written column by column. */
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
