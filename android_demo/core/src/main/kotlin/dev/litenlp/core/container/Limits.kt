package dev.litenlp.core.container

/**
 * The limits of a container: what a file of so many bytes may honestly need, checked before anything is allocated by it.
 *
 * `compress/FORMAT.md` states them with their reasons, `compress/lnlp/limits.py` holds the same numbers for Python, and a golden
 * vector compares the two.
 */
internal object Limits {
    const val MAX_HEADER_BYTES = 4 shl 20
    const val MAX_HEADER_VALUES = 100_000
    const val MAX_TENSORS = 10_000
    const val MAX_ALIASES = 10_000
    const val MAX_FILES = 64
    const val MAX_DIMENSIONS = 8
    const val MAX_CENTROIDS = 4096
    const val MIN_SCALE_BITS = 8
    const val MAX_SCALE_BITS = 15
    const val SYMBOLS_PER_LANE = 8192
    const val MAX_LISTED = 1 shl 20
    const val MAX_CODED_MERGES = 100_000
    const val MAX_TOKEN_CHARACTERS = 4096

    private const val DEFAULT_SCALE_BITS = 12
    private const val SLOTS_PER_CENTROID = 8
    private const val BASE_WEIGHTS = 1L shl 24
    private const val WEIGHTS_PER_BYTE = 8
    private const val MAX_WEIGHTS = 1L shl 28
    private const val BASE_GRID_TABLES = 2
    private const val WEIGHTS_PER_GRID_TABLE = 256
    private const val BASE_FILE_BYTES = 16L shl 20
    private const val FILE_BYTES_PER_BYTE = 2

    /** Most weights in a file of that size, an empty dimension counted as 1. */
    fun maxWeights(fileBytes: Long): Long = minOf(MAX_WEIGHTS, BASE_WEIGHTS + WEIGHTS_PER_BYTE * fileBytes)

    /** Largest size of all embedded files together, once inflated, in a container of that size. */
    fun maxFileBytes(fileBytes: Long): Long = BASE_FILE_BYTES + FILE_BYTES_PER_BYTE * fileBytes

    /** Most tables for a tensor of so many weights on a grid. */
    fun maxGridTables(weights: Int): Int = BASE_GRID_TABLES + weights / WEIGHTS_PER_GRID_TABLE

    /** Largest scale of the entropy coder for a codebook of that size. */
    fun maxScaleBits(centroids: Int): Int {
        val justified = Int.SIZE_BITS - 1 - Integer.numberOfLeadingZeros(SLOTS_PER_CENTROID * centroids)
        return minOf(MAX_SCALE_BITS, maxOf(DEFAULT_SCALE_BITS, justified))
    }
}
