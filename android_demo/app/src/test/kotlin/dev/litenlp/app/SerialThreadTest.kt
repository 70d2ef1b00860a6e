package dev.litenlp.app

import org.junit.Assert.assertEquals
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch

class SerialThreadTest {
    private val errors = CopyOnWriteArrayList<String>()
    private val thread = SerialThread("tested") { errors += "${it.message}" }

    /** Waits for all tasks that were given before. */
    private fun drain() = CountDownLatch(1).let { latch ->
        thread.run(latch::countDown)
        latch.await()
    }

    @Test
    fun `it is busy from the call on, and idle when the last task has ended`() {
        val done = CopyOnWriteArrayList<Int>()
        repeat(2_000) { number ->
            thread.run { done += number }
            // A task that was given and has not run must never go unseen, whatever the thread is about just then.
            while (!thread.isIdle) Thread.yield()
            assertEquals("idle before it ran", number + 1, done.size)
        }
        assertEquals((0 until 2_000).toList(), done)
        thread.stop()
    }

    @Test
    fun `a task that throws is told of and does not end the thread`() {
        thread.run { throw IllegalStateException("first") }
        drain()
        assertEquals(listOf("first"), errors)
        thread.stop()
        assertTrue(thread.isIdle)
    }

    @Test
    fun `stopping drops what waits and what comes later`() {
        val begun = CountDownLatch(1)
        val ran = CopyOnWriteArrayList<String>()
        thread.run {
            begun.countDown()
            try {
                CountDownLatch(1).await()
            } catch (_: InterruptedException) {
                ran += "interrupted"
            }
        }
        repeat(3) { thread.run { ran += "dropped" } }
        begun.await()
        assertFalse(thread.isIdle)
        thread.stop()
        thread.run { ran += "late" }
        assertEquals(listOf("interrupted"), ran)
        assertTrue(thread.isIdle)
    }
}
