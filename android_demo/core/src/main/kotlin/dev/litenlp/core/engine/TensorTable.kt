package dev.litenlp.core.engine

/** Tensors by name, owned by the table. */
internal class TensorTable<T : Any>(private val onnx: OnnxRuntime<T>) : AutoCloseable {
    private val table = LinkedHashMap<String, T>()

    val handles: Map<String, T> get() = table

    /** Takes ownership of a tensor, and releases the one that had the name before. */
    operator fun set(name: String, tensor: T) {
        table.put(name, tensor)?.let(onnx::release)
    }

    fun putAll(names: Collection<String>, tensors: List<T>) = names.forEachIndexed { index, name -> set(name, tensors[index]) }

    /** Gives ownership of a tensor to the caller. */
    fun take(name: String): T = checkNotNull(table.remove(name))

    /** Releases all tensors but these. */
    fun retain(names: Collection<String>) = (table.keys - names.toSet()).forEach { onnx.release(take(it)) }

    override fun close() {
        table.values.forEach(onnx::release)
        table.clear()
    }
}
