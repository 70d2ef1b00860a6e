package dev.litenlp.app

import android.util.AtomicFile
import java.io.File

/**
 * Whether there is something to read. Up to Android 10 a write sets the old file aside under another name, where an end of
 * the process may leave it alone; [AtomicFile.openRead] takes it back.
 */
fun AtomicFile.isThere(): Boolean = baseFile.exists() || File(baseFile.path + ".bak").exists()
