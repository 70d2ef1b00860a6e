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

    /** The memory did not suffice. */
    OUT_OF_MEMORY,

    /** Text that is no Unicode. */
    NOT_UNICODE,

    /** Stopped on request. */
    CANCELLED,
}

/**
 * The one exception of this library.
 *
 * @property problem Its kind; what to tell the user follows from it.
 * @param message In English, for the log: names the thing, what was expected and what was found.
 */
class LiteNlpException(val problem: Problem, override val message: String, cause: Throwable? = null) : Exception(message, cause)
