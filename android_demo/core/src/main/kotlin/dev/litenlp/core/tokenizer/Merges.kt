package dev.litenlp.core.tokenizer

/**
 * The merges of byte-pair encoding: pairs of tokens, their order and results.
 *
 * A hash table of primitive values: a boxed map of some thousand pairs is slow to build and to ask on a phone.
 *
 * @param lefts Left token of each merge, best merge first.
 * @param rights Right token of each.
 * @param results What each gives.
 */
internal class Merges(lefts: IntArray, rights: IntArray, private val results: IntArray) {
    // At most half full, so that a search meets a free place soon.
    private val mask = Integer.highestOneBit(maxOf(lefts.size, 1) * 4) - 1
    private val keys = LongArray(mask + 1) { FREE }
    private val ranks = IntArray(mask + 1)

    init {
        for (rank in lefts.indices) {
            val place = placeOf(keyOf(lefts[rank], rights[rank]))
            keys[place] = keyOf(lefts[rank], rights[rank])
            ranks[place] = rank
        }
    }

    /** Place of a pair in the order of merges, -1 if it is not merged. */
    private fun rankOf(left: Int, right: Int): Int {
        val place = placeOf(keyOf(left, right))
        return if (keys[place] == FREE) -1 else ranks[place]
    }

    private fun placeOf(key: Long): Int {
        // The upper bits of the product depend on all bits of the key.
        var place = ((key * -0x61c8864680b583ebL) ushr 32).toInt() and mask
        while (keys[place] != FREE && keys[place] != key) place = (place + 1) and mask
        return place
    }

    /**
     * Merges the best pair, the leftmost of equals, until no pair is left that merges. For n tokens this takes a time of
     * n log n.
     *
     * @param tokens Its first [count] are replaced by what the merging gives.
     * @return How many these are.
     */
    fun apply(tokens: IntArray, count: Int): Int {
        if (count < 2) return count
        // Merged tokens stay in the place of their leftmost part; the others are left out of the chain.
        val next = IntArray(count) { it + 1 }
        val previous = IntArray(count) { it - 1 }
        val queue = LongHeap(count)
        for (place in 0 until count - 1) offer(queue, tokens, place, place + 1)
        while (!queue.isEmpty()) {
            val entry = queue.removeLeast()
            val place = entry.toInt()
            val rank = (entry ushr 32).toInt()
            if (tokens[place] == GONE || next[place] == count) continue
            val right = next[place]
            // Since the entry was made, one of the two may have become another token.
            if (rankOf(tokens[place], tokens[right]) != rank) continue
            tokens[place] = results[rank]
            tokens[right] = GONE
            next[place] = next[right]
            if (next[place] != count) {
                previous[next[place]] = place
                offer(queue, tokens, place, next[place])
            }
            if (place != 0) offer(queue, tokens, previous[place], place)
        }
        var kept = 0
        var place = 0
        while (place != count) {
            tokens[kept++] = tokens[place]
            place = next[place]
        }
        return kept
    }

    private fun offer(queue: LongHeap, tokens: IntArray, left: Int, right: Int) {
        val rank = rankOf(tokens[left], tokens[right])
        if (rank >= 0) queue.add((rank.toLong() shl 32) or left.toLong())
    }

    private companion object {
        const val FREE = -1L
        const val GONE = -1

        fun keyOf(left: Int, right: Int): Long = (left.toLong() shl 32) or right.toLong()
    }
}

/** A priority queue of numbers, least first. */
internal class LongHeap(capacity: Int) {
    private var values = LongArray(maxOf(capacity, 1))
    private var size = 0

    fun isEmpty(): Boolean = size == 0

    fun add(value: Long) {
        if (size == values.size) values = values.copyOf(size * 2)
        var place = size++
        while (place > 0) {
            val parent = (place - 1) / 2
            if (values[parent] <= value) break
            values[place] = values[parent]
            place = parent
        }
        values[place] = value
    }

    /** Removes the least number; there must be one. */
    fun removeLeast(): Long {
        val least = values[0]
        val value = values[--size]
        var place = 0
        while (true) {
            var child = place * 2 + 1
            if (child >= size) break
            if (child + 1 < size && values[child + 1] < values[child]) child++
            if (values[child] >= value) break
            values[place] = values[child]
            place = child
        }
        values[place] = value
        return least
    }
}
