package dev.litenlp.app

import android.content.Context
import android.text.format.Formatter
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.bundle.Manifest
import dev.litenlp.core.bundle.RuntimeKind
import java.text.NumberFormat
import java.util.Locale

/** Texts of the screens in the language of a [Context]: sentences for problems, names, numbers. */
object Sentences {
    /** The user's message for a problem: the cause and the remedy. The technical message is for the log. */
    fun about(context: Context, problem: Problem): String = context.getString(
        when (problem) {
            Problem.NOT_A_BUNDLE -> R.string.problem_not_a_bundle
            Problem.TRUNCATED -> R.string.problem_truncated
            Problem.ALTERED -> R.string.problem_altered
            Problem.NEWER_SCHEMA -> R.string.problem_newer_schema
            Problem.OTHER_TASK -> R.string.problem_other_task
            Problem.OTHER_TOKENIZER -> R.string.problem_other_tokenizer
            Problem.TOO_LARGE -> R.string.problem_too_large
            Problem.UNSUPPORTED -> R.string.problem_unsupported
            Problem.STORAGE_FULL -> R.string.problem_storage_full
            Problem.STORAGE_FAILED -> R.string.problem_storage_failed
            Problem.RUNTIME_MISSING -> R.string.problem_runtime_missing
            Problem.RUNTIME_REFUSED -> R.string.problem_runtime_refused
            Problem.RUNTIME_FAILED -> R.string.problem_runtime_failed
            Problem.RUNTIME_ENDED -> R.string.problem_runtime_ended
            Problem.OUT_OF_MEMORY -> R.string.problem_out_of_memory
            Problem.NOT_UNICODE -> R.string.problem_not_unicode
            Problem.CANCELLED -> R.string.problem_cancelled
        },
    )

    /** The name that a runtime's makers gave it. */
    fun runtimeName(runtime: String): String = RuntimeKind.of(runtime)?.title ?: runtime

    /** "English → German", or the model's name if it does not say its languages. */
    fun languagePair(context: Context, manifest: Manifest): String {
        val languages = manifest.languages ?: return manifest.name
        return context.getString(
            R.string.language_pair,
            languageName(context, languages.src),
            languageName(context, languages.tgt),
        )
    }

    /** Name of a language by its code, beginning with a capital letter as a label does. */
    fun languageName(context: Context, code: String): String {
        val locale = locale(context)
        return localeOf(code).getDisplayLanguage(locale).ifEmpty { code }.replaceFirstChar { it.titlecase(locale) }
    }

    /** The language of a model's code, which may be written with an underscore; an empty one if it is no code. */
    fun localeOf(code: String): Locale = Locale.forLanguageTag(code.replace('_', '-'))

    /** The language in which the resources of a context are read. */
    fun locale(context: Context): Locale = context.resources.configuration.locales[0]

    /** Bytes as "19 MB", 1000-based. */
    fun size(context: Context, bytes: Long): String = Formatter.formatShortFileSize(context, bytes)

    /** A number with the separators of the language. */
    fun count(context: Context, number: Long): String = NumberFormat.getIntegerInstance(locale(context)).format(number)

    fun count(context: Context, number: Int): String = count(context, number.toLong())

    /** A number with a fixed count of decimals. */
    fun decimal(context: Context, number: Double, decimals: Int): String {
        val format = NumberFormat.getNumberInstance(locale(context))
        format.minimumFractionDigits = decimals
        format.maximumFractionDigits = decimals
        return format.format(number)
    }

    /** Milliseconds as "8.4 ms", "84 ms" or "1.2 s". */
    fun duration(context: Context, ms: Double): String = when {
        ms < 10 -> context.getString(R.string.milliseconds, decimal(context, ms, 1))
        ms < 1000 -> context.getString(R.string.milliseconds, decimal(context, ms, 0))
        else -> context.getString(R.string.seconds, decimal(context, ms / 1000, 1))
    }

    /** A fraction (0 to 1) as "12 %". */
    fun percent(context: Context, fraction: Double): String =
        NumberFormat.getPercentInstance(locale(context)).format(fraction)
}

/** The problem behind whatever was thrown, for a sentence. */
fun Throwable.problem(): Problem = when (this) {
    is LiteNlpException -> problem
    is OutOfMemoryError -> Problem.OUT_OF_MEMORY
    is LinkageError -> Problem.RUNTIME_MISSING
    else -> Problem.RUNTIME_FAILED
}
