package dev.litenlp.core.container

internal fun decodeFp32(payload: Payload, size: Int): FloatArray {
    val start = payload.takeRest(4L * size)
    return FloatArray(size) { Float.fromBits(littleEndianInt(payload.bytes, start + 4 * it)) }
}

internal fun decodeFp16(payload: Payload, size: Int): FloatArray {
    val start = payload.takeRest(2L * size)
    return FloatArray(size) { halfToFloat(littleEndianShort(payload.bytes, start + 2 * it)) }
}

internal fun decodeInt64(payload: Payload, size: Int): LongArray {
    val start = payload.takeRest(8L * size)
    return LongArray(size) {
        val low = littleEndianInt(payload.bytes, start + 8 * it).toLong() and 0xFFFFFFFFL
        low or (littleEndianInt(payload.bytes, start + 8 * it + 4).toLong() shl 32)
    }
}

/** A bitmap of the weights that are not zero, lowest bit first, then those weights. */
internal fun decodePruned(payload: Payload, size: Int): FloatArray {
    val bytes = payload.bytes
    val bitmapBytes = (size + 7) / 8
    val bitmap = payload.take(bitmapBytes.toLong(), "bitmap")
    var kept = 0L
    for (index in bitmap until bitmap + bitmapBytes) kept += Integer.bitCount(bytes[index].toInt() and 0xFF)
    checkClear(bytes, bitmap, size.toLong(), "bitmap")
    var next = payload.takeRest(4 * kept)
    val values = FloatArray(size)
    for (index in 0 until size) {
        if ((bytes[bitmap + index / 8].toInt() ushr (index % 8)) and 1 != 0) {
            values[index] = Float.fromBits(littleEndianInt(bytes, next))
            next += 4
        }
    }
    return values
}

/** A codebook, then the indices in as few bits as name every centroid, packed lowest bit first. */
internal fun decodeKmeans(payload: Payload, size: Int): FloatArray {
    val reader = payload.bits("codebook")
    val centroids = readCodebook(reader)
    payload.skip(reader)
    val width = maxOf(1, Int.SIZE_BITS - Integer.numberOfLeadingZeros(centroids.size - 1))
    var at = payload.takeRest((size.toLong() * width + 7) / 8)
    checkClear(payload.bytes, at, size.toLong() * width, "indices")
    val mask = (1 shl width) - 1
    val values = FloatArray(size)
    // At most 11 bits are left over when a byte comes in, and an index has at most 12: 19 bits suffice.
    var buffer = 0
    var available = 0
    for (index in 0 until size) {
        while (available < width) {
            buffer = buffer or ((payload.bytes[at++].toInt() and 0xFF) shl available)
            available += 8
        }
        val centroid = buffer and mask
        if (centroid >= centroids.size) throw altered("index: expected one below ${centroids.size}, found $centroid")
        values[index] = centroids[centroid]
        buffer = buffer ushr width
        available -= width
    }
    return values
}

/** Checks that what the last byte holds beyond [bits] bits from [start] on is clear: one content has one form. */
internal fun checkClear(bytes: ByteArray, start: Int, bits: Long, what: String) {
    val used = (bits % 8).toInt()
    if (used != 0 && (bytes[start + (bits / 8).toInt()].toInt() and 0xFF) ushr used != 0) {
        throw altered("$what: expected zeros after the last weight")
    }
}

/** Ascending centroids, by the gaps between their bits, which ascend once those of negative numbers are inverted. */
internal fun readCodebook(reader: BitReader): FloatArray {
    val bits = if (reader.field(1) == 1L) 32 else 16
    val size = reader.number() + 1
    if (size > Limits.MAX_CENTROIDS) throw altered("codebook: expected at most ${Limits.MAX_CENTROIDS} centroids, found $size")
    var key = reader.field(bits)
    val gaps = reader.numbers(size.toInt() - 1, 0L until (1L shl bits))
    val top = 1L shl (bits - 1)
    return FloatArray(size.toInt()) {
        if (it > 0) key += gaps.long(it - 1) + 1
        if (key shr bits != 0L) throw altered("codebook: expected centroids of $bits bits, found more")
        val pattern = (if (key and top != 0L) key xor top else key xor (2 * top - 1)).toInt()
        if (bits == 16) halfToFloat(pattern) else Float.fromBits(pattern)
    }
}

internal fun littleEndianShort(bytes: ByteArray, at: Int): Int =
    (bytes[at].toInt() and 0xFF) or ((bytes[at + 1].toInt() and 0xFF) shl 8)

/** The value of an IEEE 754 binary16 number, which every float can hold exactly; the payload of a NaN is kept. */
internal fun halfToFloat(half: Int): Float {
    val sign = (half and 0x8000) shl 16
    val exponent = (half ushr 10) and 0x1F
    val fraction = half and 0x3FF
    return when (exponent) {
        // Zero and subnormals: fraction * 2^-24.
        0 -> Float.fromBits((fraction * (1f / (1 shl 24))).toRawBits() or sign)
        0x1F -> Float.fromBits(sign or 0x7F800000 or (fraction shl 13))
        else -> Float.fromBits(sign or ((exponent + 112) shl 23) or (fraction shl 13))
    }
}
