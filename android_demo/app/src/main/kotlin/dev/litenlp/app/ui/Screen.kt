package dev.litenlp.app.ui

import android.content.Context
import android.content.Intent
import android.content.res.Resources
import android.os.Bundle
import android.view.Menu
import android.view.View
import android.view.ViewGroup
import dev.litenlp.app.Services

/**
 * One screen: a class and a layout. [Screens] lists them all.
 *
 * A screen lives as long as its view: from being shown until another is shown, or the activity is made anew (rotation). What
 * should outlive that goes through [onSaveState] (small things) or belongs to [Services].
 *
 * @param layout inflated below the toolbar; scrolling is the layout's business, insets are not
 */
abstract class Screen(internal val layout: Int) {
    internal lateinit var host: MainActivity

    protected val activity: MainActivity get() = host
    protected val context: Context get() = host
    protected val resources: Resources get() = host.resources
    protected val services: Services get() = host.services

    /** The inflated layout. */
    protected lateinit var view: View
        private set

    internal fun create(parent: ViewGroup, saved: Bundle?): View {
        view = host.layoutInflater.inflate(layout, parent, false)
        onCreated(saved)
        return view
    }

    /** The view is there. @param saved what [onSaveState] wrote, null the first time or with the arguments of the call */
    protected abstract fun onCreated(saved: Bundle?)

    /** The screen becomes visible: observe what it shows and draw it. */
    open fun onStart() = Unit

    /** The screen is no longer visible: end what [onStart] began. */
    open fun onStop() = Unit

    /** Keep what the next view of this screen needs. Few bytes: this goes through the system. */
    open fun onSaveState(state: Bundle) = Unit

    /** Another app has answered what was asked with [MainActivity.startActivityForResult]. */
    open fun onResult(request: Int, result: Int, data: Intent?) = Unit

    /** Puts actions into the toolbar, before the screens of its overflow menu. */
    open fun onCreateActions(menu: Menu) = Unit

    /** An action was chosen. @return whether it was one of this screen's */
    open fun onAction(id: Int): Boolean = false

    /** A view of the layout by its id. */
    protected fun <T : View> find(id: Int): T = view.findViewById(id)
}
