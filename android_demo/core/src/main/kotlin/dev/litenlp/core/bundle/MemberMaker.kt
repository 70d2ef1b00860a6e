package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.container.Container
import dev.litenlp.core.container.Tensor
import java.io.InputStream
import java.util.zip.DataFormatException
import java.util.zip.Inflater

/**
 * Reconstructs members of a compact bundle block by block: beside the container only one decoded tensor is in memory.
 *
 * @param container Tensors and files that the parts name.
 */
internal class MemberMaker(private val container: Container) {
    private val prediction = ByteArray(BLOCK_BYTES)
    private val residual = ByteArray(BLOCK_BYTES)

    /**
     * Reconstructs a member.
     *
     * @param name Of the member, for messages.
     * @param source The file that [PackedMember.residual] names.
     * @param sink Takes the content: the first `count` bytes of the array.
     * @throws LiteNlpException `ALTERED` if the recipe, the tensors and the residual do not fit one another.
     * @throws java.io.IOException If [source] or [sink] fails.
     */
    fun make(name: String, member: PackedMember, source: InputStream, sink: (content: ByteArray, count: Int) -> Unit) {
        checkParts(name, member)
        InflatedResidual(source, "$name: ${member.residual}", member.entry.sizeBytes).use { inflated ->
            var position = 0L
            for (part in member.parts) {
                zeros(part.offset - position, inflated, sink)
                when (part) {
                    is Part.OfFile -> file(checkNotNull(container.files[part.file]), inflated, sink)
                    is Part.OfTensor -> floats(valuesOf(part), inflated, sink)
                    is Part.Sinusoid -> floats(SinusoidTable(part.rows, part.columns), inflated, sink)
                }
                position = part.offset + sizeOf(part, name)
            }
            zeros(member.entry.sizeBytes - position, inflated, sink)
            inflated.expectEnd()
        }
    }

    /** Checks that parts follow one another within the member, which bounds the work by the member's size. */
    private fun checkParts(name: String, member: PackedMember) {
        var end = 0L
        for ((number, part) in member.parts.withIndex()) {
            val where = "$name: part $number"
            val size = sizeOf(part, where)
            if (part.offset < end) {
                throw misfit("$where: expected an offset of at least $end, where the last one ends, found ${part.offset}")
            }
            val limit = member.entry.sizeBytes
            // Subtracted, since the sum may exceed 64 bits.
            if (part.offset > limit || size > limit - part.offset) {
                throw misfit("$where: expected an end of at most $limit bytes, found $size bytes from ${part.offset} on")
            }
            end = part.offset + size
        }
    }

    private fun sizeOf(part: Part, where: String): Long = when (part) {
        is Part.OfFile -> (
            container.files[part.file] ?: throw misfit("$where: expected a file of the container, found '${part.file}'")
            ).size.toLong()
        is Part.OfTensor -> Float.SIZE_BYTES * checkedTensor(part, where).size.toLong()
        is Part.Sinusoid -> Float.SIZE_BYTES * part.rows.toLong() * part.columns
    }

    private fun checkedTensor(part: Part.OfTensor, where: String): Tensor {
        val tensor = container.tensor(part.tensor)
            ?: throw misfit("$where: expected a tensor of the container, found '${part.tensor}'")
        if (tensor.isInteger || (part.transposed && tensor.shape.count { it != 1 } != 2)) {
            val kind = if (tensor.isInteger) "int64" else "fp32"
            throw misfit(
                "$where: ${part.tensor}: expected an fp32 ${if (part.transposed) "matrix" else "tensor"}, found $kind of shape " +
                    tensor.shape.contentToString(),
            )
        }
        return tensor
    }

    private fun valuesOf(part: Part.OfTensor): Values {
        val tensor = checkNotNull(container.tensor(part.tensor))
        val values = tensor.decodeFloats()
        if (!part.transposed) return RowMajor(values)
        val (rows, columns) = tensor.shape.filter { it != 1 }
        return TransposedMatrix(values, rows, columns)
    }

    private fun zeros(count: Long, inflated: InflatedResidual, sink: (ByteArray, Int) -> Unit) {
        var left = count
        while (left > 0) {
            val length = minOf(left, BLOCK_BYTES.toLong()).toInt()
            inflated.fill(residual, length)
            sink(residual, length)
            left -= length
        }
    }

    private fun file(content: ByteArray, inflated: InflatedResidual, sink: (ByteArray, Int) -> Unit) {
        for (from in content.indices step BLOCK_BYTES) {
            val length = minOf(content.size - from, BLOCK_BYTES)
            content.copyInto(prediction, 0, from, from + length)
            predicted(length, inflated, sink)
        }
    }

    private fun floats(values: Values, inflated: InflatedResidual, sink: (ByteArray, Int) -> Unit) {
        var index = 0L
        while (index < values.count) {
            val count = minOf(values.count - index, (BLOCK_BYTES / Float.SIZE_BYTES).toLong()).toInt()
            values.write(index, count, prediction)
            predicted(count * Float.SIZE_BYTES, inflated, sink)
            index += count
        }
    }

    /** Passes on the first [length] bytes of the prediction, XOR the residual. */
    private fun predicted(length: Int, inflated: InflatedResidual, sink: (ByteArray, Int) -> Unit) {
        inflated.fill(residual, length)
        for (at in 0 until length) residual[at] = (residual[at].toInt() xor prediction[at].toInt()).toByte()
        sink(residual, length)
    }

    private companion object {
        const val BLOCK_BYTES = 1 shl 16
    }
}

private fun misfit(message: String) = LiteNlpException(Problem.ALTERED, message)

/** The zlib stream [source], inflated block by block, which must hold exactly [size] bytes. */
private class InflatedResidual(private val source: InputStream, private val name: String, private val size: Long) : AutoCloseable {
    private val inflater = Inflater()
    private val input = ByteArray(1 shl 14)
    private var ended = false

    /** Inflates the next [length] bytes to the start of [target]. */
    fun fill(target: ByteArray, length: Int) {
        var filled = 0
        while (filled < length) {
            val count = inflate(target, filled, length - filled)
            if (count == 0) throw wrongSize()
            filled += count
        }
    }

    /** Checks that nothing follows, neither in the stream nor after it. */
    fun expectEnd() {
        if (inflate(ByteArray(1), 0, 1) != 0 || !inflater.finished() || inflater.remaining != 0 || source.read() >= 0) {
            throw wrongSize()
        }
    }

    override fun close() = inflater.end()

    /** At least one byte unless the stream, or the file that holds it, has ended. */
    private fun inflate(target: ByteArray, offset: Int, length: Int): Int {
        try {
            while (true) {
                val count = inflater.inflate(target, offset, length)
                if (count > 0 || inflater.finished() || inflater.needsDictionary() || ended) return count
                if (inflater.needsInput()) {
                    val read = source.read(input)
                    if (read < 0) ended = true else inflater.setInput(input, 0, read)
                }
            }
        } catch (error: DataFormatException) {
            throw LiteNlpException(Problem.ALTERED, "$name: expected a zlib stream: ${error.message}", error)
        }
    }

    private fun wrongSize() = misfit("$name: expected a zlib stream of exactly $size bytes")
}
