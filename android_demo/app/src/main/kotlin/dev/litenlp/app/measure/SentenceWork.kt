package dev.litenlp.app.measure

import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.metrics.GraphWork
import dev.litenlp.core.search.STRETCH_TOKENS
import dev.litenlp.core.search.Translator
import dev.litenlp.core.tokenizer.Tokenizer

/**
 * Expected work of a text not yet translated, for a translation of as many tokens as the text.
 *
 * @property sourceTokens handed to the model, end marks not counted
 * @property macs Mult-Adds that the graphs will execute
 */
data class SentenceWork(val sourceTokens: Int, val macs: Long) {
    companion object {
        /**
         * Foretells the work of a text, line by line; a line too long for the model counts as the pieces of a sentence that is,
         * or as its beginning where the model takes no more.
         *
         * @throws dev.litenlp.core.LiteNlpException `NOT_UNICODE`
         */
        fun estimate(text: String, tokenizer: Tokenizer, work: GraphWork, manifest: Manifest, beamSize: Int): SentenceWork {
            val wanted = manifest.decoding
            val longest = minOf(wanted?.maxSourceTokens ?: Translator.MAX_SOURCE_TOKENS, manifest.bounds.source - 1).coerceAtLeast(1)
            val options = Translator.optionsOf(manifest, beamSize)
            var tokens = 0
            var macs = 0L
            for (line in Translator.sourceLines(text, tokenizer)) {
                val all = line.tokens.size
                var left = if (wanted?.truncates == true) minOf(all, longest) else all
                tokens += left
                val most = if (left > longest) minOf(longest, STRETCH_TOKENS) else longest
                while (left > 0) {
                    val piece = minOf(left, most)
                    val capacity = options.steps(piece, manifest.bounds.capacity)
                    // A step for each token and for the end mark; each hypothesis takes steps of its own, the first one is shared.
                    macs += work.macs(piece + 1, capacity, 1 + beamSize * minOf(piece, capacity - 1))
                    left -= piece
                }
            }
            return SentenceWork(tokens, macs)
        }
    }
}
