package dev.litenlp.core.bundle

import dev.litenlp.core.LiteNlpException
import dev.litenlp.core.Problem
import java.io.InputStream
import java.util.zip.DataFormatException
import java.util.zip.Inflater

/** The zlib stream [source], inflated block by block, which must hold exactly [size] bytes. */
internal class InflatedStream(private val source: InputStream, private val name: String, private val size: Long) : AutoCloseable {
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

    private fun wrongSize() = LiteNlpException(Problem.ALTERED, "$name: expected a zlib stream of exactly $size bytes")
}
