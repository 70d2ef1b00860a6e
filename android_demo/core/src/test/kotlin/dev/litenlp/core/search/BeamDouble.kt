package dev.litenlp.core.search

import dev.litenlp.core.engine.BeamCall
import dev.litenlp.core.engine.BeamDecoding
import dev.litenlp.core.engine.BeamSteps
import dev.litenlp.core.engine.Decoding
import dev.litenlp.core.engine.Engine

/** An engine that takes steps of beam search by itself, written down plainly over one that is asked for logits. */
class BeamDouble(private val engine: Engine) : Engine by engine {
    /** All calls of all decodings. */
    val calls = ArrayList<BeamCall>()

    override fun start(sources: List<IntArray>, capacity: Int): Decoding =
        throw AssertionError("an engine that searches by itself is asked for logits")

    override fun startBeams(sources: List<IntArray>, capacity: Int): BeamDecoding = Beams(engine.start(sources, capacity))

    private inner class Beams(private val decoding: Decoding) : BeamDecoding {
        override fun search(call: BeamCall): BeamSteps {
            calls += call
            return Run(call, decoding).steps()
        }

        override fun close() = decoding.close()
    }

    private class Candidate(val score: Double, val parent: Int, val token: Int)

    private inner class Run(private val call: BeamCall, private val decoding: Decoding) {
        private val width = call.width
        private val ranked = RowTokens(vocabSize, call.count)
        private var tokens = call.tokens
        private var parents = call.parents
        private val live = call.live.copyOf()
        private val best = call.best.copyOf()
        private val origins = IntArray(call.sentences)
        private val finished = call.finished.copyOf()
        private val done = BooleanArray(call.sentences)
        private val madeTokens = ArrayList<Int>()
        private val madeParents = ArrayList<Int>()
        private var isSound = true

        fun steps(): BeamSteps {
            var taken = 0
            while (taken < call.steps && done.count { it } < call.leave) step(taken++)
            return BeamSteps(
                taken,
                madeTokens.toIntArray(),
                madeParents.toIntArray(),
                live,
                best,
                origins,
                finished,
                done,
                isSound,
            )
        }

        private fun step(taken: Int) {
            decoding.reorder(parents)
            val logits = decoding.step(tokens).copyOf(tokens.size * vocabSize)
            if (logits.any { it.isNaN() || it == Float.POSITIVE_INFINITY }) {
                isSound = false
                logits.fill(0f)
            }
            val next = (0 until call.sentences).flatMap { extend(it, logits, taken) }
            tokens = IntArray(next.size) { next[it].token }
            parents = IntArray(next.size) { it / width * width + next[it].parent }
            next.forEachIndexed { row, candidate -> live[row] = candidate.score }
            madeTokens += next.map { it.token }
            madeParents += next.map { it.parent }
        }

        private fun extend(sentence: Int, logits: FloatArray, taken: Int): List<Candidate> {
            val step = call.step + taken + 1
            val mustEnd = call.limits[sentence] <= step
            val ends = ArrayList<Candidate>()
            val words = ArrayList<Candidate>()
            for (hypothesis in 0 until width) {
                val row = sentence * width + hypothesis
                ranked.rank(logits, row * vocabSize, BlockedTokens(vocabSize, 0))
                val columns = call.blocked.size / call.tokens.size
                val blocked = call.blocked.slice(row * columns until (row + 1) * columns)
                val own = ranked.tokens.indices.map { rank ->
                    val score = live[row] + (ranked.logits[rank] - ranked.normalizer)
                    Candidate(if (ranked.tokens[rank] in blocked) Double.NEGATIVE_INFINITY else score, hypothesis, ranked.tokens[rank])
                }
                val mayEnd = mustEnd || step > call.minLength || own.all { it.score == Double.NEGATIVE_INFINITY }
                val end = live[row] + (logits[row * vocabSize + SpecialTokens.EOS] - ranked.normalizer)
                ends += Candidate(if (mayEnd) end else Double.NEGATIVE_INFINITY, hypothesis, SpecialTokens.EOS)
                words += own.map { Candidate(if (mustEnd) Double.NEGATIVE_INFINITY else it.score, it.parent, it.token) }
            }
            // Sorting is stable: of equal ones the first stays before the others.
            for (end in (ends + words).sortedByDescending { it.score }.take(width)) finish(sentence, end, taken)
            val next = words.sortedByDescending { it.score }.take(width)
            val reachable = next[0].score / call.penalties[call.limits[sentence]]
            done[sentence] = done[sentence] || mustEnd || finished[sentence] >= width || best[sentence] >= reachable
            return next
        }

        private fun finish(sentence: Int, end: Candidate, taken: Int) {
            if (end.token != SpecialTokens.EOS || end.score == Double.NEGATIVE_INFINITY || done[sentence]) return
            finished[sentence]++
            val score = end.score / call.penalties[call.step + taken + 1]
            if (score > best[sentence]) {
                best[sentence] = score
                origins[sentence] = 1 + taken * width + end.parent
            }
        }
    }
}
