package dev.litenlp.core.bundle

/**
 * The limits of a bundle, those of `lite_nlp.export.runtime.limits` and `docs/export.md`. Whatever a file says, reading it costs
 * a bounded multiple of its size: each number is checked before anything is allocated for what it limits.
 */
internal object Limits {
    /** Bytes of a file in a bundle. */
    const val MAX_FILE_BYTES = 4_000_000_000L

    /** Bytes of `manifest.json`. */
    const val MAX_MANIFEST_BYTES = 4_000_000

    /** Members beside the manifest, and bytes of a member's name. */
    const val MAX_FILES = 64
    const val MAX_NAME_BYTES = 255

    /** Members that a compact bundle describes, and parts of one. */
    const val MAX_PACKED_MEMBERS = 16
    const val MAX_PARTS = 8192

    /** Parts of equal size that a matrix of integers may be cut into: for each of them all of it is decoded. */
    const val MAX_CUTS = 16

    /** Bytes of all members described: at most the first, and at most the second and for each byte of the file the third. */
    const val MAX_MADE_BYTES = 1L shl 30
    const val MADE_BYTES_ALWAYS = 64L shl 20
    const val MADE_BYTES_PER_STORED = 48L

    /** The tokenizer is at most as large as this and the file together. */
    const val TOKENIZER_BYTES_ALWAYS = 4L shl 20

    /** A table of positions. */
    const val MAX_SINUSOID_ROWS = 1 shl 24
    const val MAX_SINUSOID_COLUMNS = 1 shl 16

    /** State tensors, their dimensions, and their bytes for one row at the largest sizes. */
    const val MAX_STATE_TENSORS = 256
    const val MAX_RANK = 8
    const val MAX_STATE_BYTES = 256L shl 20

    /** Source tokens and decoder steps; rows of a call. */
    const val MAX_TOKENS = 1 shl 16
    const val MAX_BATCH = 1 shl 10

    /** Packages, graphs and test sets; terms of a polynomial. */
    const val MAX_VERSIONS = 64
    const val MAX_GRAPHS = 16
    const val MAX_SCORES = 64
    const val MAX_TERMS = 64

    /** Operators of ONNX Runtime's own. */
    const val MAX_OPERATORS = 64

    /** Characters of a name or another word. */
    const val MAX_TEXT = 256
}
