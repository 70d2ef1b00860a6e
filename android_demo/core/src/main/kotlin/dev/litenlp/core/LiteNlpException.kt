package dev.litenlp.core

/** Kinds of failure; an app has a message for each. */
enum class Problem {
    /** The file is something else than a bundle. */
    NOT_A_BUNDLE,

    /** The file ends too early. */
    TRUNCATED,

    /** A part of the bundle is not what its checksums say. */
    ALTERED,

    /** The bundle was made by a newer version of this project. */
    NEWER_SCHEMA,

    /** A bundle of a model that does not translate. */
    OTHER_TASK,

    /** The tokenizer or the token ids are those of another model. */
    OTHER_TOKENIZER,

    /** More bytes or tokens than are allowed. */
    TOO_LARGE,

    /** A sound file that asks for what this version cannot do. */
    UNSUPPORTED,

    /** The storage has too little space left. */
    STORAGE_FULL,

    /** The storage refused to read or write for another reason. */
    STORAGE_FAILED,

    /** This system has no such runtime, or the bundle has no graphs for it. */
    RUNTIME_MISSING,

    /** The runtime does not take the bundle's graphs. */
    RUNTIME_REFUSED,

    /** The runtime failed while running. */
    RUNTIME_FAILED,

    /** The process ended while the runtime was at work. */
    RUNTIME_ENDED,

    /** The memory did not suffice. */
    OUT_OF_MEMORY,

    /** Text that is no Unicode. */
    NOT_UNICODE,

    /** Stopped on request. */
    CANCELLED,
}

/** Longest message: a screen of a log. */
private const val MAX_MESSAGE_LENGTH = 1800

/**
 * The one exception of this library.
 *
 * @property problem Its kind; what to tell the user follows from it.
 * @param message In English, for the log: names the thing, what was expected and what was found. It may quote a file that nobody
 *   vouches for: control characters are shown as escapes, and what is longer than a screen loses its middle.
 */
class LiteNlpException(val problem: Problem, message: String, cause: Throwable? = null) : Exception(cause) {
    override val message: String = presentable(message)
}

/** Names [what], the part that was at work, in an error of [block]. */
internal inline fun <T> naming(what: String, block: () -> T): T = try {
    block()
} catch (error: LiteNlpException) {
    throw LiteNlpException(error.problem, "$what: ${error.message}", error)
}

private fun presentable(message: String): String {
    val shown = if (message.none { it.isISOControl() && it != '\n' }) cut(message) else cut(message).map(::visible).joinToString("")
    return cut(shown)
}

private fun cut(message: String): String {
    if (message.length <= MAX_MESSAGE_LENGTH) return message
    // The beginning names the thing; the end says what was found.
    val head = MAX_MESSAGE_LENGTH * 3 / 4 - 50
    val tail = MAX_MESSAGE_LENGTH / 4
    return "${message.take(head)} ... (${message.length - head - tail} characters left out) ... ${message.takeLast(tail)}"
}

private fun visible(letter: Char): String =
    if (letter.isISOControl() && letter != '\n') "\\u%04x".format(java.util.Locale.ROOT, letter.code) else letter.toString()
