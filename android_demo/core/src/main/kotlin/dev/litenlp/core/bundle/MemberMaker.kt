package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import dev.litenlp.core.container.Container
import dev.litenlp.core.container.Tensor
import java.io.InputStream

/**
 * Reconstructs members of a compact bundle block by block: beside the container only one decoded tensor is in memory.
 *
 * @param container Tensors and files that the parts name.
 * @param scalings What tensors are scaled by before anything is made of them, by name; all of them are in the container.
 * @param rounded What was chosen for the matrices of which members have integers, by name; all of them are in the container.
 */
internal class MemberMaker(
    private val container: Container,
    private val scalings: Map<String, Scaling>,
    private val rounded: Map<String, RoundingCodes>,
) {
    private val prediction = ByteArray(BLOCK_BYTES)
    private val residual = ByteArray(BLOCK_BYTES)

    /**
     * Reconstructs a member.
     *
     * @param name Of the member, for messages.
     * @param parts What its prediction is made of.
     * @param source The file that [PackedMember.residual] names.
     * @param sink Takes the content: the first `count` bytes of the array.
     * @throws LiteNlpException `ALTERED` if the recipe, the tensors and the residual do not fit one another.
     * @throws java.io.IOException If [source] or [sink] fails.
     */
    fun make(
        name: String,
        member: PackedMember,
        parts: List<Part>,
        source: InputStream,
        sink: (content: ByteArray, count: Int) -> Unit,
    ) {
        checkParts(name, member, parts)
        InflatedStream(source, "$name: ${member.residual}", member.entry.sizeBytes).use { inflated ->
            var position = 0L
            for (part in parts) {
                zeros(part.offset - position, inflated, sink)
                when (part) {
                    is Part.OfFile -> file(checkNotNull(container.files[part.file]), inflated, sink)
                    is Part.OfTensor -> floats(valuesOf(part), inflated, sink)
                    is Part.OfIntegers -> bytes(checkNotNull(rounded[part.tensor]).integers(decoded(part.tensor), part), inflated, sink)
                    is Part.OfScales -> bytes(checkNotNull(rounded[part.tensor]).scales(part) { decoded(part.tensor) }, inflated, sink)
                    is Part.Sinusoid -> floats(SinusoidTable(part.rows, part.columns), inflated, sink)
                }
                position = part.offset + sizeOf(part, name)
            }
            zeros(member.entry.sizeBytes - position, inflated, sink)
            inflated.expectEnd()
        }
    }

    /** Checks that parts follow one another within the member, which bounds the work by the member's size. */
    private fun checkParts(name: String, member: PackedMember, parts: List<Part>) {
        var end = 0L
        for ((number, part) in parts.withIndex()) {
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
        is Part.OfIntegers -> codesOf(part.tensor, where).integerBytes(part, where)
        is Part.OfScales -> codesOf(part.tensor, where).scaleBytes(part, where)
        is Part.Sinusoid -> Float.SIZE_BYTES * part.rows.toLong() * part.columns
    }

    private fun codesOf(tensor: String, where: String): RoundingCodes =
        rounded[tensor] ?: throw misfit("$where: expected a matrix with integers, found '$tensor'")

    private fun decoded(tensor: String): FloatArray =
        checkNotNull(container.tensor(tensor)).decodeFloats().also { scalings[tensor]?.scale(it) }

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
        val values = decoded(part.tensor)
        if (!part.transposed) return RowMajor(values)
        val (rows, columns) = checkNotNull(container.tensor(part.tensor)).shape.filter { it != 1 }
        return TransposedMatrix(values, rows, columns)
    }

    private fun zeros(count: Long, inflated: InflatedStream, sink: (ByteArray, Int) -> Unit) {
        var left = count
        while (left > 0) {
            val length = minOf(left, BLOCK_BYTES.toLong()).toInt()
            inflated.fill(residual, length)
            sink(residual, length)
            left -= length
        }
    }

    private fun file(content: ByteArray, inflated: InflatedStream, sink: (ByteArray, Int) -> Unit) {
        for (from in content.indices step BLOCK_BYTES) {
            val length = minOf(content.size - from, BLOCK_BYTES)
            content.copyInto(prediction, 0, from, from + length)
            predicted(length, inflated, sink)
        }
    }

    private fun bytes(run: ByteRun, inflated: InflatedStream, sink: (ByteArray, Int) -> Unit) {
        var from = 0L
        while (from < run.count) {
            val length = minOf(run.count - from, BLOCK_BYTES.toLong()).toInt()
            run.write(from, length, prediction)
            predicted(length, inflated, sink)
            from += length
        }
    }

    private fun floats(values: Values, inflated: InflatedStream, sink: (ByteArray, Int) -> Unit) {
        var index = 0L
        while (index < values.count) {
            val count = minOf(values.count - index, (BLOCK_BYTES / Float.SIZE_BYTES).toLong()).toInt()
            values.write(index, count, prediction)
            predicted(count * Float.SIZE_BYTES, inflated, sink)
            index += count
        }
    }

    /** Passes on the first [length] bytes of the prediction, XOR the residual. */
    private fun predicted(length: Int, inflated: InflatedStream, sink: (ByteArray, Int) -> Unit) {
        inflated.fill(residual, length)
        for (at in 0 until length) residual[at] = (residual[at].toInt() xor prediction[at].toInt()).toByte()
        sink(residual, length)
    }

    private companion object {
        const val BLOCK_BYTES = 1 shl 16
    }
}

internal fun misfit(message: String) = LiteNlpException(Problem.ALTERED, message)
