package dev.litenlp.app

import dev.litenlp.app.models.AssetArchives
import dev.litenlp.desktop.DesktopEngineFactory
import org.junit.Assert.assertEquals
import org.junit.Assume.assumeNotNull
import org.junit.Test
import org.robolectric.RuntimeEnvironment

/** The models that the package ships: one of each direction, so that swapping the languages needs no import. */
class ShippedModelsTest : AppTest() {
    @Test
    fun `both directions are installed in the package's order, and the first is in use`() {
        assumeNotNull(System.getProperty("litenlp.bundle"))
        val archives = AssetArchives(RuntimeEnvironment.getApplication().assets)
        assertEquals(listOf("tatoeba-en-de.zip", "tatoeba-de-en.zip"), archives.names())
        restart(listOf(DesktopEngineFactory), archives.names().associateWith { { archives.open(it) } })
        launch()
        await("both models") { services.models.models.size == 2 && !services.models.isPreparing }
        assertEquals(listOf("tatoeba-en-de", "tatoeba-de-en"), services.models.models.map { it.name })
        assertEquals("en" to "de", services.models.selected?.languages)
        assertEquals("tatoeba-de-en", services.models.reverse?.name)
    }
}
