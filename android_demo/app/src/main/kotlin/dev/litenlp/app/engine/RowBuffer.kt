package dev.litenlp.app.engine

import dev.litenlp.core.bundle.ElementType
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.FloatBuffer
import org.pytorch.executorch.DType
import org.pytorch.executorch.EValue
import org.pytorch.executorch.Tensor

/**
 * Enables bool tensors in ExecuTorch's Java classes, which only name the type.
 *
 * The native side knows them, by a number that is in [DType.BOOL]; no Java class of a tensor has that type. Nothing here uses
 * unsigned bytes, so their type gets the number: a tensor of unsigned bytes is one of bools from then on, in the whole process.
 *
 * @throws IllegalStateException If the classes are others than these, such as those of a later release.
 */
internal fun allowBoolTensors() {
    try {
        val code = DType::class.java.getDeclaredField("jniCode")
        code.isAccessible = true
        code.setInt(DType.UINT8, code.getInt(DType.BOOL))
    } catch (error: ReflectiveOperationException) {
        throw IllegalStateException("DType: expected a field jniCode, found otherwise: ${error.message}", error)
    }
}

/**
 * A tensor whose rows can be gathered, in memory that ExecuTorch reads where it lies.
 *
 * @param type Of its elements.
 * @param rowShape Its dimensions without the batch, which is the first.
 * @param rows Rows at the start, all of zeros.
 * @throws OutOfMemoryError If it does not fit an array of bytes.
 */
internal class RowBuffer(private val type: ElementType, private val rowShape: List<Int>, private var rows: Int) {
    private val elementBytes = when (type) {
        ElementType.FLOAT32 -> 4
        ElementType.INT64 -> 8
        ElementType.BOOL -> 1
    }
    private val rowBytes = rowShape.fold(elementBytes.toLong()) { bytes, size -> Math.multiplyExact(bytes, size.toLong()) }
    private var bytes = allocate(rows)
    private var spare: ByteBuffer? = null

    private fun allocate(rows: Int): ByteBuffer {
        if (rowBytes > Int.MAX_VALUE / rows) throw OutOfMemoryError("tensor: expected less than 2 GiB, found $rows rows of $rowBytes bytes")
        return ByteBuffer.allocateDirect(rowBytes.toInt() * rows).order(ByteOrder.nativeOrder())
    }

    /** Resizes to [rows] rows of undefined content. */
    fun resize(rows: Int) {
        if (rows * rowBytes > bytes.capacity()) bytes = allocate(rows)
        this.rows = rows
    }

    /** Allocates memory for [gather] with [rows] rows. */
    fun reserve(rows: Int) {
        if (rows * rowBytes > (spare?.capacity() ?: -1)) spare = allocate(rows)
    }

    /** Makes row `i` what row `rows[i]` was; [reserve] comes first. */
    fun gather(rows: IntArray) {
        val target = checkNotNull(spare)
        target.clear()
        for (row in rows) target.put(slice(row..row))
        spare = bytes
        bytes = target
        this.rows = rows.size
    }

    private fun slice(part: IntRange): ByteBuffer {
        val all = bytes.duplicate()
        all.limit(Math.toIntExact((part.last + 1) * rowBytes))
        all.position(Math.toIntExact(part.first * rowBytes))
        return all.slice().order(ByteOrder.nativeOrder())
    }

    /** A range of rows as a tensor of ExecuTorch; valid until the next [gather] or [resize]. */
    fun view(part: IntRange) = View(slice(part), longArrayOf(part.count().toLong(), *LongArray(rowShape.size) { rowShape[it].toLong() }))

    /** @property value The rows, to be passed to a method. */
    inner class View(private val memory: ByteBuffer, private val shape: LongArray) {
        val value: EValue = EValue.from(
            when (type) {
                ElementType.FLOAT32 -> Tensor.fromBlob(memory.asFloatBuffer(), shape)
                ElementType.INT64 -> Tensor.fromBlob(memory.asLongBuffer(), shape)
                ElementType.BOOL -> Tensor.fromBlobUnsigned(memory, shape)
            },
        )

        /** Writes [values] from index [first] on, one for each row. */
        fun writeLongs(values: IntArray, first: Int) {
            val target = memory.asLongBuffer()
            for (index in 0 until target.capacity()) target.put(index, values[first + index].toLong())
        }

        /**
         * Copies a tensor of the same shape to here.
         *
         * @throws IllegalStateException If it has another shape or type.
         */
        fun read(tensor: Tensor) {
            check(tensor.shape().contentEquals(shape)) {
                "expected a tensor of shape ${shape.asList()}, found ${tensor.shape().asList()}"
            }
            when (type) {
                ElementType.FLOAT32 -> tensor.copyDataInto(memory.asFloatBuffer())
                ElementType.INT64 -> tensor.copyDataInto(memory.asLongBuffer())
                ElementType.BOOL -> tensor.copyDataIntoUnsigned(memory.duplicate())
            }
        }
    }

    companion object {
        /** A tensor with these elements, row-major, in [rows] rows of equal length. */
        fun ofLongs(values: LongArray, rows: Int): RowBuffer {
            val buffer = RowBuffer(ElementType.INT64, listOf(values.size / rows), rows)
            buffer.bytes.asLongBuffer().put(values)
            return buffer
        }

        /** A tensor with these elements, row-major, in [rows] rows of equal length. */
        fun ofBooleans(values: BooleanArray, rows: Int): RowBuffer {
            val buffer = RowBuffer(ElementType.BOOL, listOf(values.size / rows), rows)
            for (index in values.indices) buffer.bytes.put(index, if (values[index]) 1 else 0)
            return buffer
        }
    }
}

/** Logits of all rows, gathered from the calls that make them: [vocabSize] each. */
internal class LogitsBuffer(private val vocabSize: Int) {
    /** Row-major `(rows, vocabSize)`. */
    var values = FloatArray(0)
        private set

    /** Resizes to [rows] rows. */
    fun resize(rows: Int) {
        if (values.size != rows * vocabSize) values = FloatArray(rows * vocabSize)
    }

    /**
     * Copies the logits of some rows to their place.
     *
     * @throws IllegalStateException If they are not float32, one row of the vocabulary's size for each.
     */
    fun read(tensor: Tensor, rows: IntRange) {
        val shape = longArrayOf(rows.count().toLong(), vocabSize.toLong())
        check(tensor.shape().contentEquals(shape)) {
            "logits: expected shape ${shape.asList()}, found ${tensor.shape().asList()}"
        }
        tensor.copyDataInto(FloatBuffer.wrap(values, rows.first * vocabSize, rows.count() * vocabSize))
    }
}
