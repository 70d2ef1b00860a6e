package dev.litenlp.core.container

import kotlin.math.abs

/** Bounds of levels and exponents. */
private const val MAX_LEVEL = (1 shl 23) - 1
private const val MAX_EXPONENT = 63L
private const val MAX_LEVEL_WIDTH = 24
private const val MAX_CLASS_OFFSET = 63L

/** Widths of the fields of the side information. */
private const val LEVEL_BITS = 5
private const val SHAPE_BITS = 3
private const val CLASS_BITS = 7
private const val CLASS_WIDTH_BITS = 3

/** The square root of 2 as a 32-bit float. */
private const val SQRT_2 = 1.4142135f

/** Rows and columns that a tensor is seen as: the first dimension and the rest; a vector is one row. */
private class Matrix(shape: IntArray) {
    val rows = if (shape.size < 2) 1 else shape[0]
    val columns = shape.drop(if (shape.size < 2) 0 else 1).fold(1) { product, size -> product * size }
    val size = rows * columns

    init {
        if (size == 0) throw altered("expected at least one weight, found the shape ${shape.contentToString()}")
    }
}

/** What makes weights of levels: a step, and powers of the square root of 2 by row and by column. */
private class Scales(step: Float, private val rows: Numbers, private val columns: Numbers) {
    private val least = rows.min() + columns.min()
    private val scales = FloatArray(rows.max() + columns.max() - least + 1) {
        val exponent = least + it
        (if (exponent and 1 == 1) step * SQRT_2 else step) * Math.scalb(1f, exponent shr 1)
    }

    init {
        if (!(step > 0f && scales.all { it < Float.POSITIVE_INFINITY })) {
            throw altered("step: expected a number above 0 that is finite with all exponents, found $step")
        }
    }

    fun weight(level: Int, row: Int, column: Int): Float = level.toFloat() * scales[rows[row] + columns[column] - least]
}

/** Levels of fixed width: a step, exponents, then each level from the least. */
internal fun decodeGrid(payload: Payload, shape: IntArray): FloatArray {
    val matrix = Matrix(shape)
    val step = Float.fromBits(littleEndianInt(payload.bytes, payload.take(4, "step")))
    val reader = payload.bits("grid")
    val width = reader.field(LEVEL_BITS).toInt()
    val least = reader.signed()
    if (width > MAX_LEVEL_WIDTH || abs(least) > MAX_LEVEL) {
        throw altered("levels: expected at most $MAX_LEVEL_WIDTH bits, found $width from $least on")
    }
    val scales = Scales(step, readExponents(reader, matrix.rows), readExponents(reader, matrix.columns))
    payload.skip(reader)
    val bits = matrix.size.toLong() * width
    val start = payload.takeRest((bits + 7) / 8)
    checkClear(payload.bytes, start, bits, "levels")
    val levels = BitReader(payload.bytes, start, payload.bytes.size, "levels")
    val values = FloatArray(matrix.size)
    var above = 0
    var hasLeast = false
    for (index in values.indices) {
        val offset = levels.field(width).toInt()
        above = above or offset
        hasLeast = hasLeast || offset == 0
        if (least + offset > MAX_LEVEL) throw altered("levels: expected at most $MAX_LEVEL, found ${least + offset}")
        values[index] = scales.weight((least + offset).toInt(), index / matrix.columns, index % matrix.columns)
    }
    if (!hasLeast || Int.SIZE_BITS - Integer.numberOfLeadingZeros(above) != width) {
        throw altered("levels: expected $least among them, and $width bits to be needed")
    }
    return values
}

/** Levels coded by rANS, each with a table by the classes of its row and column. */
internal fun decodeGridRans(payload: Payload, shape: IntArray): FloatArray {
    val matrix = Matrix(shape)
    val stepTop = littleEndianShort(payload.bytes, payload.take(2, "step"))
    val reader = payload.bits("grid")
    val side = GridSide.read(reader, matrix.rows, matrix.columns)
    payload.skip(reader)
    val tables = side.tables(matrix.size)
    val levels = ShortArray(matrix.size)
    val columns = matrix.columns
    var row = 0
    var column = -1
    val carried = RansStream(payload, matrix.size).decode(
        GridTables.SCALE_BITS,
        tables.steps,
        {
            if (++column == columns) {
                column = 0
                row++
            }
            tables.starts[side.klass(row, column)]
        },
        { index, slot -> levels[index] = tables.levels[slot] },
    )
    // The step is known only now: the stream carries its lower half.
    val scales = Scales(Float.fromBits((stepTop shl 16) or carried), side.rowExponents, side.columnExponents)
    val values = FloatArray(matrix.size)
    var escapes = 0
    var index = 0
    for (top in 0 until matrix.rows) {
        for (left in 0 until columns) {
            val held = levels[index]
            val level = if (held == GridTables.ESCAPE) side.escape(escapes++, tables.reach[side.klass(top, left)]) else held.toInt()
            values[index++] = scales.weight(level + side.center, top, left)
        }
    }
    if (escapes != side.numEscapes) throw altered("escapes: expected $escapes, found ${side.numEscapes}")
    return values
}

/** What a payload says of its levels, in front of their stream. */
private class GridSide(
    private val shape: Int,
    val center: Int,
    private val base: Int,
    private val widths: IntArray,
    private val tilts: Numbers,
    private val rowClasses: Numbers,
    private val columnClasses: Numbers,
    val rowExponents: Numbers,
    val columnExponents: Numbers,
    val numEscapes: Int,
    private val escapes: Numbers,
) {
    /** Tables one behind the other; by class, where each begins, and the greatest magnitude that it holds. */
    class Tables(val steps: IntArray, val levels: ShortArray, val starts: IntArray, val reach: IntArray)

    fun klass(row: Int, column: Int): Int = sum(widths[0] * rowClasses[row], widths[1] * columnClasses[column])

    /** Builds the tables of the classes that occur among [size] levels. */
    fun tables(size: Int): Tables {
        val present = java.util.TreeSet<Int>()
        for (row in rowClasses.distinct()) {
            for (column in columnClasses.distinct()) present.add(sum(widths[0] * row, widths[1] * column))
        }
        val most = Limits.maxGridTables(size)
        if (present.size > most) throw altered("tables: expected at most $most for $size weights, found ${present.size}")
        val slots = 1 shl GridTables.SCALE_BITS
        val tables = Tables(
            IntArray(present.size * slots), ShortArray(present.size * slots), IntArray(GridTables.CLASSES), IntArray(GridTables.CLASSES),
        )
        for ((place, klass) in present.withIndex()) {
            tables.starts[klass] = place * slots
            tables.reach[klass] = GridTables.fill(shape, tilts, klass, tables.steps, tables.levels, place * slots)
        }
        return tables
    }

    /** The level of an escape, which its table must not hold. */
    fun escape(index: Int, reach: Int): Int {
        if (index >= numEscapes) throw altered("escapes: expected more than $numEscapes")
        if (abs(escapes[index]) <= reach) throw altered("escapes: expected levels that their tables do not hold")
        return escapes[index]
    }

    private fun sum(row: Int, column: Int): Int = (base + row + column).coerceIn(0, GridTables.CLASSES - 1)

    companion object {
        fun read(reader: BitReader, rows: Int, columns: Int): GridSide {
            val shape = reader.field(SHAPE_BITS).toInt()
            val center = reader.signed()
            val base = reader.field(CLASS_BITS).toInt()
            val widths = IntArray(2) { reader.field(CLASS_WIDTH_BITS).toInt() }
            if (shape >= GridTables.SHAPES || base >= GridTables.CLASSES || abs(center) > MAX_LEVEL - GridTables.MAX_MAGNITUDE) {
                throw altered("tables: expected a shape, a class and a center, found $shape, $base and $center")
            }
            val tilts = reader.numbers(GridTables.TILTS, GridTables.TILT_RANGE)
            val rowClasses = readClasses(reader, rows, widths[0])
            val columnClasses = readClasses(reader, columns, widths[1])
            val rowExponents = readExponents(reader, rows)
            val columnExponents = readExponents(reader, columns)
            val numEscapes = reader.number()
            val most = minOf(rows * columns, Limits.MAX_LISTED)
            if (numEscapes > most) throw altered("escapes: expected at most $most, found $numEscapes")
            val escapes = reader.numbers(numEscapes.toInt(), -MAX_LEVEL - center..MAX_LEVEL - center)
            return GridSide(
                shape, center.toInt(), base, widths, tilts, rowClasses, columnClasses, rowExponents, columnExponents,
                numEscapes.toInt(), escapes,
            )
        }

        private fun readClasses(reader: BitReader, count: Int, width: Int): Numbers =
            if (width == 0) Numbers(null, 0) else reader.numbers(count, -MAX_CLASS_OFFSET..MAX_CLASS_OFFSET)
    }
}

private fun readExponents(reader: BitReader, count: Int): Numbers = reader.numbers(count, -MAX_EXPONENT..MAX_EXPONENT)
