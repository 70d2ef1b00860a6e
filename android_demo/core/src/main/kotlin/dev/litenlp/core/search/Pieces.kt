package dev.litenlp.core.search

/**
 * Tokens of a piece of a sentence that is too long: models are trained on sentences; on long text without an end they repeat
 * themselves, and are slow, since each step looks back at all that was written.
 */
const val STRETCH_TOKENS = 40

/**
 * Characters that are halved, and counted, together: without this bound halving takes a time of n log n, and a text of one long
 * word is tokenized as one.
 */
const val BLOCK_CHARACTERS = 4096

/**
 * Cuts a text into pieces of at most [maxTokens] tokens, as `split_text` of `lite_nlp/decoding/pieces.py` does; only white space
 * at a cut is lost.
 *
 * It is cut at every sentence end: models trained on sentences translate a sentence best. A sentence that is too long is cut
 * into pieces of at most [STRETCH_TOKENS] tokens: blocks of characters that end at a space are halved at the space nearest to
 * their middle, else in their middle, until they are short enough.
 *
 * @param text Without lone surrogates.
 * @param maxTokens Bound of a piece; only a single character may exceed it.
 * @param countTokens Number of tokens of a piece; it is given at most [BLOCK_CHARACTERS] code points.
 */
fun splitText(text: String, maxTokens: Int, countTokens: (String) -> Int): List<String> {
    val pieces = ArrayList<String>()
    val stretch = minOf(maxTokens, STRETCH_TOKENS)
    for (sentence in sentencesOf(Characters(text))) {
        val whole = if (sentence.size <= BLOCK_CHARACTERS) sentence.toString() else null
        if (whole != null && countTokens(whole) <= maxTokens) {
            pieces.add(whole)
            continue
        }
        for (block in blocksOf(sentence)) halve(block, stretch, countTokens, pieces)
    }
    return pieces
}

/** Cuts a text after closing punctuation; the parts are stripped, blank ones left out. */
fun splitSentences(text: String): List<String> = sentencesOf(Characters(text)).map { it.toString() }

/** Part of a text in code points, which is how Python counts places. */
private class Characters(private val codePoints: IntArray, private val start: Int, private val end: Int) {
    constructor(text: String) : this(codePointsOf(text))

    private constructor(codePoints: IntArray) : this(codePoints, 0, codePoints.size)

    val size: Int
        get() = end - start

    operator fun get(index: Int): Int = codePoints[start + index]

    /** `self[start:end].strip()` */
    fun stripped(from: Int, to: Int): Characters {
        var first = from
        var last = to
        while (first < last && PythonText.isSpace(this[first])) first++
        while (first < last && PythonText.isSpace(this[last - 1])) last--
        return Characters(codePoints, start + first, start + last)
    }

    /** The place behind the white space that starts at [index], if any. */
    fun skipSpace(index: Int): Int {
        var place = index
        while (place < size && PythonText.isSpace(this[place])) place++
        return place
    }

    override fun toString(): String = String(codePoints, start, size)
}

private fun codePointsOf(text: String): IntArray {
    val codePoints = IntArray(text.length)
    var count = 0
    var index = 0
    while (index < text.length) {
        val codePoint = text.codePointAt(index)
        codePoints[count++] = codePoint
        index += Character.charCount(codePoint)
    }
    return codePoints.copyOf(count)
}

private const val CLOSING_PUNCTUATION = ".!?\u2026"
private const val CLOSING_QUOTES = "\"'\u201D\u2019\u00BB)]"
private const val IDEOGRAPHIC_STOPS = "\u3002\uFF01\uFF1F"

/** Parts between the matches of `[.!?…]["'”’»)\]]*\s+|[。！？]\s*`, each with what was matched. */
private fun sentencesOf(text: Characters): List<Characters> {
    val sentences = ArrayList<Characters>()
    var start = 0
    var index = 0
    while (index < text.size) {
        val end = sentenceEnd(text, index)
        if (end == index) {
            index++
            continue
        }
        addPart(text, start, end, sentences)
        start = end
        index = end
    }
    addPart(text, start, text.size, sentences)
    return sentences
}

/** The place behind a sentence end that starts at [index], [index] itself if none does. */
private fun sentenceEnd(text: Characters, index: Int): Int {
    if (isOneOf(IDEOGRAPHIC_STOPS, text[index])) return text.skipSpace(index + 1)
    if (!isOneOf(CLOSING_PUNCTUATION, text[index])) return index
    var place = index + 1
    while (place < text.size && isOneOf(CLOSING_QUOTES, text[place])) place++
    val end = text.skipSpace(place)
    return if (end == place) index else end
}

private fun isOneOf(characters: String, codePoint: Int): Boolean = characters.any { it.code == codePoint }

private fun addPart(text: Characters, from: Int, to: Int, parts: MutableList<Characters>) {
    val part = text.stripped(from, to)
    if (part.size > 0) parts.add(part)
}

/** Parts of at most [BLOCK_CHARACTERS]; each but the last ends behind the last space that it can, if any. */
private fun blocksOf(text: Characters): List<Characters> {
    val blocks = ArrayList<Characters>()
    var start = 0
    while (text.size - start > BLOCK_CHARACTERS) {
        val limit = start + BLOCK_CHARACTERS
        var place = limit
        while (place > start && !PythonText.isSpace(text[place - 1])) place--
        if (place == start) place = limit
        addPart(text, start, place, blocks)
        start = place
    }
    addPart(text, start, text.size, blocks)
    return blocks
}

private fun halve(text: Characters, maxTokens: Int, countTokens: (String) -> Int, pieces: MutableList<String>) {
    val whole = text.toString()
    if (text.size == 1 || countTokens(whole) <= maxTokens) {
        pieces.add(whole)
        return
    }
    val place = middleOf(text)
    val halves = ArrayList<Characters>(2)
    addPart(text, 0, place, halves)
    addPart(text, place, text.size, halves)
    for (half in halves) halve(half, maxTokens, countTokens, pieces)
}

/** The end of white space nearest to the middle, the first of equals; the middle if there is no white space. */
private fun middleOf(text: Characters): Int {
    val middle = text.size / 2
    var best = -1
    var index = 0
    while (index < text.size) {
        val end = text.skipSpace(index)
        if (end > index && (best < 0 || Math.abs(end - middle) < Math.abs(best - middle))) best = end
        index = end + 1
    }
    return if (best < 0) middle else best
}
