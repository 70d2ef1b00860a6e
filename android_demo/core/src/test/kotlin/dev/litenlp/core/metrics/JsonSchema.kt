package dev.litenlp.core.metrics

import org.json.JSONArray
import org.json.JSONObject

/** Validates JSON against a schema, as far as the schemas of this project go; a keyword that it does not know is an error. */
class JsonSchema(private val root: JSONObject) {
    /** Faults of [value], a line for each. */
    fun faults(value: Any): List<String> = faults(value, root, "report")

    private fun faults(value: Any, schema: JSONObject, path: String): List<String> {
        val type = schema.opt("type") as String?
        if (type != null && !hasType(value, type)) return listOf("$path: expected $type, found $value")
        return names(schema).flatMap { faults(value, schema, it, path) }
    }

    /** Values of the wrong type do not come here. */
    private fun faults(value: Any, schema: JSONObject, keyword: String, path: String): List<String> {
        val wanted = schema.get(keyword)
        return when (keyword) {
            "\$schema", "\$defs", "title", "description", "type" -> emptyList()
            "\$ref" -> faults(value, definition(wanted as String), path)
            "const" -> fault(value == wanted, "$path: expected $wanted, found $value")
            "enum" -> fault(value in (wanted as JSONArray).items(), "$path: expected one of $wanted, found $value")
            "pattern" -> fault(Regex(wanted as String).containsMatchIn(value as String), "$path: expected $wanted, found $value")
            "minLength" -> fault((value as String).length >= wanted as Int, "$path: expected $wanted characters, found '$value'")
            "minimum" -> fault((value as Number).toDouble() >= (wanted as Number).toDouble(), "$path: expected $wanted, found $value")
            "minItems" -> fault((value as JSONArray).length() >= wanted as Int, "$path: expected $wanted items, found $value")
            "items" -> (value as JSONArray).items().flatMapIndexed { index, item -> faults(item, wanted as JSONObject, "$path[$index]") }
            "required" -> (wanted as JSONArray).items().flatMap { fault((value as JSONObject).has(it as String), "$path: no $it") }
            "properties" -> names(wanted as JSONObject).filter { value is JSONObject && value.has(it) }.flatMap {
                faults((value as JSONObject).get(it), wanted.getJSONObject(it), "$path.$it")
            }
            "oneOf" -> fault(
                (wanted as JSONArray).items().count { faults(value, it as JSONObject, path).isEmpty() } == 1,
                "$path: expected exactly one of $wanted, found $value",
            )
            else -> throw IllegalArgumentException("schema: unknown keyword $keyword")
        }
    }

    // What both the JVM's org.json and Android's have.
    private fun names(json: JSONObject): List<String> = json.keys().asSequence().toList()

    private fun JSONArray.items(): List<Any> = List(length()) { get(it) }

    private fun fault(isRight: Boolean, message: String) = if (isRight) emptyList() else listOf(message)

    private fun hasType(value: Any, type: String): Boolean = when (type) {
        "object" -> value is JSONObject
        "array" -> value is JSONArray
        "string" -> value is String
        "integer" -> value is Int || value is Long
        "number" -> value is Number
        "null" -> value == JSONObject.NULL
        else -> throw IllegalArgumentException("schema: unknown type $type")
    }

    private fun definition(reference: String): JSONObject {
        require(reference.startsWith(DEFINITIONS)) { "schema: expected a reference to $DEFINITIONS, found $reference" }
        return root.getJSONObject("\$defs").getJSONObject(reference.removePrefix(DEFINITIONS))
    }

    private companion object {
        const val DEFINITIONS = "#/\$defs/"
    }
}
