package dev.litenlp.app.ui

import dev.litenlp.app.R
import dev.litenlp.app.ui.about.AboutScreen
import dev.litenlp.app.ui.about.LicenseScreen
import dev.litenlp.app.ui.details.DetailsScreen
import dev.litenlp.app.ui.history.FavouritesScreen
import dev.litenlp.app.ui.history.HistoryScreen
import dev.litenlp.app.ui.log.LogScreen
import dev.litenlp.app.ui.measure.BenchmarkScreen
import dev.litenlp.app.ui.measure.BudgetScreen
import dev.litenlp.app.ui.measure.CompareScreen
import dev.litenlp.app.ui.models.ModelsScreen
import dev.litenlp.app.ui.settings.SettingsScreen
import dev.litenlp.app.ui.translate.TranslateScreen

/** Entry to a screen: the navigation bar, the toolbar's menu (on the first screen as a button), Details, or another screen. */
enum class Place { NAVIGATION, QUICK, OVERFLOW, DETAILS, INNER }

/**
 * @property id its name in saved state
 * @property title string, in the toolbar and as label
 * @property icon drawable
 * @property about string that describes it, for those of Details
 */
class ScreenEntry(
    val id: String,
    val title: Int,
    val icon: Int,
    val place: Place,
    val make: () -> Screen,
    val about: Int? = null,
)

/** All screens, in the order in which they are offered. The first is where the app begins. */
object Screens {
    const val TRANSLATE = "translate"
    const val BUDGET = "budget"
    const val COMPARE = "compare"
    const val BENCHMARK = "benchmark"
    const val MODELS = "models"
    const val HISTORY = "history"
    const val FAVOURITES = "favourites"
    const val DETAILS = "details"
    const val SETTINGS = "settings"
    const val LOG = "log"
    const val ABOUT = "about"
    const val LICENSE = "license"

    val all: List<ScreenEntry> = listOf(
        ScreenEntry(TRANSLATE, R.string.screen_translate, R.drawable.ic_translate, Place.NAVIGATION, ::TranslateScreen),
        ScreenEntry(MODELS, R.string.screen_models, R.drawable.ic_models, Place.NAVIGATION, ::ModelsScreen),
        ScreenEntry(FAVOURITES, R.string.screen_favourites, R.drawable.ic_star, Place.QUICK, ::FavouritesScreen),
        ScreenEntry(HISTORY, R.string.screen_history, R.drawable.ic_history, Place.QUICK, ::HistoryScreen),
        ScreenEntry(DETAILS, R.string.screen_details, R.drawable.ic_info, Place.OVERFLOW, ::DetailsScreen),
        detail(BUDGET, R.string.screen_budget, R.drawable.ic_budget, R.string.details_budget, ::BudgetScreen),
        detail(COMPARE, R.string.screen_compare, R.drawable.ic_compare, R.string.details_compare, ::CompareScreen),
        detail(BENCHMARK, R.string.screen_benchmark, R.drawable.ic_benchmark, R.string.details_benchmark, ::BenchmarkScreen),
        detail(LOG, R.string.screen_log, R.drawable.ic_log, R.string.details_log, ::LogScreen),
        ScreenEntry(SETTINGS, R.string.screen_settings, R.drawable.ic_settings, Place.OVERFLOW, ::SettingsScreen),
        ScreenEntry(ABOUT, R.string.screen_about, R.drawable.ic_info, Place.OVERFLOW, ::AboutScreen),
        ScreenEntry(LICENSE, R.string.screen_license, R.drawable.ic_info, Place.INNER, ::LicenseScreen),
    )

    private fun detail(id: String, title: Int, icon: Int, about: Int, make: () -> Screen) =
        ScreenEntry(id, title, icon, Place.DETAILS, make, about)

    fun entry(id: String): ScreenEntry =
        requireNotNull(all.find { it.id == id }) { "expected one of ${all.map { it.id }}, found $id" }
}
