package dev.litenlp.app.inference

import android.os.Handler
import dev.litenlp.app.EventLog
import dev.litenlp.app.SerialThread
import dev.litenlp.app.models.Model
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.search.Translator
import dev.litenlp.core.tokenizer.Tokenizer
import java.util.concurrent.atomic.AtomicReference

/** Counts a text's tokens while it is typed, away from the inference thread, which may be busy for long. */
class TokenCounter(private val thread: SerialThread, private val main: Handler, private val log: EventLog) {
    private class Request(val model: Model, val text: String, val report: (Int) -> Unit)

    private val newest = AtomicReference<Request?>()
    private var tokenizer: Pair<String, Tokenizer>? = null

    /**
     * Counts the tokens of [text] and calls [report] on the main thread, unless a newer request comes before or the text cannot
     * be tokenized.
     */
    fun count(model: Model, text: String, report: (Int) -> Unit) {
        val request = Request(model, text, report)
        newest.set(request)
        thread.run {
            if (newest.get() === request) {
                val tokens = count(request)
                main.post { if (tokens != null && newest.get() === request) request.report(tokens) }
            }
        }
    }

    /** Frees the tokenizer; the next count reads it again. */
    fun forget() = thread.run { tokenizer = null }

    private fun count(request: Request): Int? = try {
        Translator.sourceLines(request.text, tokenizerOf(request.model)).sumOf { it.tokens.size }
    } catch (error: LiteNlpException) {
        log.failure("count of tokens", error)
        null
    }

    private fun tokenizerOf(model: Model): Tokenizer {
        tokenizer?.let { (id, known) -> if (id == model.id) return known }
        return model.bundle.tokenizer().also { tokenizer = model.id to it }
    }
}
