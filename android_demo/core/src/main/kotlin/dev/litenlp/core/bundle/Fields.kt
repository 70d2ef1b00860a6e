package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import org.json.JSONArray
import org.json.JSONObject

internal fun noManifest(message: String) = LiteNlpException(Problem.NOT_A_BUNDLE, "${Manifest.FILE}: $message")

internal fun tooLarge(expected: String, found: String) =
    LiteNlpException(Problem.TOO_LARGE, "${Manifest.FILE}: expected $expected, found $found")

/** The fields of a JSON object at [path], each read with its type. Unknown ones are ignored; [problem] makes what is thrown. */
internal class Fields(
    private val content: JSONObject,
    private val path: String,
    private val problem: (message: String) -> LiteNlpException = ::noManifest,
) {
    val keys: List<String> get() = content.keys().asSequence().toList()

    fun has(key: String): Boolean = content.has(key)

    /** Throws if the key is there. */
    fun refuse(key: String, expected: String) {
        if (has(key)) fail(key, expected, content.opt(key))
    }

    fun string(key: String): String = content.opt(key) as? String ?: fail(key, "a string", content.opt(key))

    fun stringOrNull(key: String): String? = if (content.isNull(key)) null else string(key)

    /** A name or another word. */
    fun text(key: String): String = string(key).also { checkText(it, key) }

    /** The keys, which are words, of an object of at most [limit] entries. */
    fun names(limit: Int): List<String> {
        checkCount(content.length(), limit, path.removeSuffix("."))
        return keys.onEach { checkText(it, "a key") }
    }

    fun boolean(key: String): Boolean = content.opt(key) as? Boolean ?: fail(key, "true or false", content.opt(key))

    fun int(key: String, least: Int = 0, most: Int = Int.MAX_VALUE): Int =
        (content.opt(key) as? Int)?.takeIf { it in least..most } ?: fail(key, "an integer from $least to $most", content.opt(key))

    fun long(key: String): Long = when (val value = content.opt(key)) {
        is Int -> value.toLong()
        is Long -> value
        else -> null
    }?.takeIf { it >= 0 } ?: fail(key, "an integer of at least 0", content.opt(key))

    fun number(key: String): Double =
        (content.opt(key) as? Number)?.toDouble()?.takeIf { it >= 0 } ?: fail(key, "a number of at least 0", content.opt(key))

    fun list(key: String, limit: Int): List<Any> {
        val array = content.opt(key) as? JSONArray ?: fail(key, "a list", content.opt(key))
        checkCount(array.length(), limit, "$path$key")
        return List(array.length()) { array.get(it) }
    }

    /** A list of at most [limit] words. */
    fun texts(key: String, limit: Int): List<String> = list(key, limit).map { value ->
        (value as? String ?: fail(key, "strings", value)).also { checkText(it, key) }
    }

    fun section(key: String): Fields = section(content.opt(key), key)

    fun sectionOrNull(key: String): Fields? = if (content.isNull(key)) null else section(key)

    fun sections(key: String, limit: Int): List<Fields> = list(key, limit).mapIndexed { index, value -> section(value, "$key.$index") }

    /** An object of any content; an empty one if there is none. */
    fun freeObject(key: String): JSONObject = when {
        !content.has(key) -> JSONObject()
        else -> content.opt(key) as? JSONObject ?: fail(key, "an object", content.opt(key))
    }

    private fun checkText(text: String, key: String) {
        if (text.codePointCount(0, text.length) > Limits.MAX_TEXT) fail(key, "at most ${Limits.MAX_TEXT} characters", text)
    }

    private fun checkCount(count: Int, limit: Int, what: String) {
        if (count > limit) throw problem("$what: expected at most $limit entries, found $count")
    }

    fun fail(key: String, expected: String, found: Any?): Nothing {
        val shown = (found ?: "nothing").toString().take(200)
        throw problem("$path$key: expected $expected, found $shown")
    }

    private fun section(value: Any?, key: String): Fields =
        Fields(value as? JSONObject ?: fail(key, "an object", value), "$path$key.", problem)
}
