package dev.litenlp.app.ui

import dev.litenlp.app.R
import dev.litenlp.app.ui.about.AboutScreen
import dev.litenlp.app.ui.about.LicenseScreen
import dev.litenlp.app.ui.history.HistoryScreen
import dev.litenlp.app.ui.log.LogScreen
import dev.litenlp.app.ui.measure.BenchmarkScreen
import dev.litenlp.app.ui.measure.BudgetScreen
import dev.litenlp.app.ui.measure.CompareScreen
import dev.litenlp.app.ui.models.ModelsScreen
import dev.litenlp.app.ui.settings.SettingsScreen
import dev.litenlp.app.ui.translate.TranslateScreen

/** Entry to a screen: the navigation bar, the toolbar's menu, or another screen alone. */
enum class Place { NAVIGATION, OVERFLOW, INNER }

/**
 * @property id its name in saved state
 * @property title string, in the toolbar and as label
 * @property icon drawable
 */
class ScreenEntry(val id: String, val title: Int, val icon: Int, val place: Place, val make: () -> Screen)

/** All screens, in the order in which they are offered. The first is where the app begins. */
object Screens {
    const val TRANSLATE = "translate"
    const val BUDGET = "budget"
    const val COMPARE = "compare"
    const val BENCHMARK = "benchmark"
    const val MODELS = "models"
    const val HISTORY = "history"
    const val SETTINGS = "settings"
    const val LOG = "log"
    const val ABOUT = "about"
    const val LICENSE = "license"

    val all: List<ScreenEntry> = listOf(
        ScreenEntry(TRANSLATE, R.string.screen_translate, R.drawable.ic_translate, Place.NAVIGATION, ::TranslateScreen),
        ScreenEntry(BUDGET, R.string.screen_budget, R.drawable.ic_budget, Place.NAVIGATION, ::BudgetScreen),
        ScreenEntry(COMPARE, R.string.screen_compare, R.drawable.ic_compare, Place.NAVIGATION, ::CompareScreen),
        ScreenEntry(BENCHMARK, R.string.screen_benchmark, R.drawable.ic_benchmark, Place.NAVIGATION, ::BenchmarkScreen),
        ScreenEntry(MODELS, R.string.screen_models, R.drawable.ic_models, Place.NAVIGATION, ::ModelsScreen),
        ScreenEntry(HISTORY, R.string.screen_history, R.drawable.ic_history, Place.OVERFLOW, ::HistoryScreen),
        ScreenEntry(SETTINGS, R.string.screen_settings, R.drawable.ic_settings, Place.OVERFLOW, ::SettingsScreen),
        ScreenEntry(LOG, R.string.screen_log, R.drawable.ic_log, Place.OVERFLOW, ::LogScreen),
        ScreenEntry(ABOUT, R.string.screen_about, R.drawable.ic_info, Place.OVERFLOW, ::AboutScreen),
        ScreenEntry(LICENSE, R.string.screen_license, R.drawable.ic_info, Place.INNER, ::LicenseScreen),
    )

    fun entry(id: String): ScreenEntry =
        requireNotNull(all.find { it.id == id }) { "expected one of ${all.map { it.id }}, found $id" }
}
