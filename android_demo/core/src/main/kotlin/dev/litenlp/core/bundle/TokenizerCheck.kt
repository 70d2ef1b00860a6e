package dev.litenlp.core.bundle

import dev.litenlp.core.JsonSyntaxException
import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.tokenizer.TokenizerDocument
import org.json.JSONException

/** Spelling of the special tokens in every vocabulary of this project: padding, begin, end. */
private val SPECIAL_TOKENS = listOf("<pad>", "<s>", "</s>")

/**
 * Refuses a tokenizer that is not the model's, which a consistent manifest alone would let pass.
 *
 * @throws LiteNlpException `OTHER_TOKENIZER`
 */
internal fun checkTokenizer(content: ByteArray, vocabulary: Vocabulary) {
    val types = try {
        TokenizerDocument.types(TokenizerDocument.parseJson(content))
    } catch (error: JsonSyntaxException) {
        throw otherTokenizer("expected JSON: ${error.message}")
    } catch (error: JSONException) {
        throw otherTokenizer("expected a tokenizer with a vocabulary: ${error.message}")
    }
    if (types.length() != vocabulary.srcSize && types.length() != vocabulary.tgtSize) {
        throw otherTokenizer(
            "does not fit the model: expected ${vocabulary.srcSize} source and ${vocabulary.tgtSize} target types, found " +
                "${types.length()}",
        )
    }
    val wanted = listOf(vocabulary.padId, vocabulary.bosId, vocabulary.eosId)
    val found = SPECIAL_TOKENS.map { types.opt(it) }
    if (found != wanted) {
        throw otherTokenizer("does not fit the model: expected ids $wanted of $SPECIAL_TOKENS, found $found")
    }
}

private fun otherTokenizer(message: String) =
    LiteNlpException(Problem.OTHER_TOKENIZER, "${Manifest.TOKENIZER_FILE}: $message")
