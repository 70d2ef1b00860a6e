package dev.litenlp.core.engine

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest

/**
 * Sources of a batch as the graphs take them: padded on the right, with a mask.
 *
 * @property rows Sentences.
 * @property length Tokens of the longest, end mark included.
 * @property tokens Ids, row-major `(rows, length)`.
 * @property mask True where there is a token, row-major `(rows, length)`.
 */
class SourceBatch private constructor(val rows: Int, val length: Int, val tokens: LongArray, val mask: BooleanArray) {
    companion object {
        /**
         * Checks what [Engine.start] was given against the bounds of a bundle, and pads it.
         *
         * @throws LiteNlpException As [Engine.start] says.
         * @throws IllegalArgumentException If there is no source, or one of no tokens.
         */
        fun of(manifest: Manifest, sources: List<IntArray>, capacity: Int): SourceBatch {
            require(sources.isNotEmpty() && sources.all { it.isNotEmpty() }) {
                "source: expected at least one row, each of at least its end mark, found ${sources.map { it.size }}"
            }
            val length = sources.maxOf { it.size }
            if (length > manifest.bounds.source) {
                throw LiteNlpException(
                    Problem.TOO_LARGE,
                    "source: the bundle was exported for at most ${manifest.bounds.source} tokens, end mark included, found $length",
                )
            }
            if (capacity < 1 || capacity > manifest.bounds.capacity) {
                throw LiteNlpException(
                    Problem.TOO_LARGE,
                    "capacity: the bundle was exported for 1 to ${manifest.bounds.capacity} decoder steps, found $capacity",
                )
            }
            val tokens = LongArray(sources.size * length) { manifest.vocabulary.padId.toLong() }
            val mask = BooleanArray(tokens.size)
            for ((row, source) in sources.withIndex()) {
                for ((column, token) in source.withIndex()) {
                    if (token < 0 || token >= manifest.vocabulary.srcSize) {
                        throw LiteNlpException(
                            Problem.OTHER_TOKENIZER,
                            "source: expected token ids 0 to ${manifest.vocabulary.srcSize - 1}, found $token",
                        )
                    }
                    tokens[row * length + column] = token.toLong()
                    mask[row * length + column] = true
                }
            }
            return SourceBatch(sources.size, length, tokens, mask)
        }
    }
}
