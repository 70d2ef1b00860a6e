package dev.litenlp.core.search

/**
 * Cuts a text into pieces of at most [maxTokens] tokens, as `split_text` of `lite_nlp/decoding/translate.py` does; only white
 * space at a cut is lost.
 *
 * It is cut at every sentence end: models trained on sentences translate a sentence best. What is still too long is halved at
 * the space nearest to its middle, else in its middle.
 *
 * @param text Without lone surrogates.
 * @param maxTokens Bound of a piece; only a single character may exceed it.
 * @param countTokens Number of tokens of a piece.
 */
fun splitText(text: String, maxTokens: Int, countTokens: (String) -> Int): List<String> {
    val pieces = ArrayList<String>()
    for (sentence in sentencesOf(Characters(text))) halve(sentence, maxTokens, countTokens, pieces)
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
