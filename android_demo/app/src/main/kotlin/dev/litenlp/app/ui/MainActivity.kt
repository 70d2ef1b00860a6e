package dev.litenlp.app.ui

import android.app.Activity
import android.content.Intent
import android.os.Bundle
import android.view.Menu
import android.view.MenuItem
import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import android.widget.Toolbar
import dev.litenlp.app.R
import dev.litenlp.app.Services
import dev.litenlp.app.history.KeptTranslation
import dev.litenlp.app.inference.TranslateSession
import dev.litenlp.app.platform.Edges
import dev.litenlp.app.platform.NewerApi
import dev.litenlp.app.speech.Speaker

/** The window: a toolbar, the [Screen] that is shown, and the [NavigationBar]. */
class MainActivity : Activity() {
    val services: Services get() = Services.of(this)

    /** Reads translations aloud. */
    val speaker: Speaker by lazy(LazyThreadSafetyMode.NONE) { Speaker(this, services.log, services.main) }

    /** Ids of the screens on the way back, the one shown last. */
    private val path = ArrayList<String>()
    private val states = Bundle()
    private lateinit var toolbar: Toolbar
    private lateinit var content: ViewGroup
    private lateinit var navigationFrame: View
    private lateinit var navigation: NavigationBar
    private var giveBack: (() -> Unit)? = null
    private var isStarted = false

    /** The screen that is shown. */
    var screen: Screen? = null
        private set

    private var screenId = ""

    /** Id of the screen that is shown. */
    val shown: String get() = path.last()

    override fun onCreate(saved: Bundle?) {
        super.onCreate(saved)
        setContentView(R.layout.main)
        toolbar = findViewById(R.id.toolbar)
        content = findViewById(R.id.content)
        navigationFrame = findViewById(R.id.navigation_frame)
        navigation = NavigationBar(findViewById(R.id.navigation), entriesIn(Place.NAVIGATION)) { show(it.id) }
        NewerApi.drawEdgeToEdge(this, findViewById(R.id.root), ::fit)
        toolbar.setNavigationOnClickListener { goBack() }
        toolbar.setOnMenuItemClickListener(::onMenuItem)
        saved?.getBundle(STATES)?.let(states::putAll)
        path += saved?.getStringArrayList(PATH) ?: listOf(Screens.TRANSLATE)
        if (saved == null) acceptText(intent)
        put()
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        setIntent(intent)
        if (!acceptText(intent)) return
        keepState()
        states.remove(Screens.TRANSLATE)
        path.clear()
        path += Screens.TRANSLATE
        put()
    }

    override fun onStart() {
        super.onStart()
        isStarted = true
        screen?.onStart()
    }

    override fun onStop() {
        isStarted = false
        screen?.onStop()
        services.translate.save()
        super.onStop()
    }

    override fun onSaveInstanceState(out: Bundle) {
        super.onSaveInstanceState(out)
        keepState()
        out.putStringArrayList(PATH, path)
        out.putBundle(STATES, states)
    }

    override fun onDestroy() {
        giveBack?.invoke()
        speaker.release()
        super.onDestroy()
    }

    @Deprecated("The system calls this before API 33")
    override fun onBackPressed() {
        if (path.size > 1) {
            goBack()
        } else {
            @Suppress("DEPRECATION")
            super.onBackPressed()
        }
    }

    @Deprecated("Of the framework, without a successor outside of libraries")
    override fun onActivityResult(request: Int, result: Int, data: Intent?) {
        screen?.onResult(request, result, data)
    }

    /**
     * Goes to a screen. Those of the bar lie one step from the first screen, those of the menu on top of where one is.
     *
     * @param arguments what its `onCreated` gets instead of a saved state
     */
    fun show(id: String, arguments: Bundle? = null) {
        if (id == shown && arguments == null) return
        keepState()
        if (Screens.entry(id).place == Place.NAVIGATION) {
            path.clear()
            path += Screens.TRANSLATE
        }
        path -= id
        path += id
        if (arguments != null) states.putBundle(id, arguments)
        put()
    }

    /** Goes to the screen before. */
    fun goBack() {
        if (path.size < 2) return
        keepState()
        path.removeAt(path.lastIndex)
        put()
    }

    /** Takes a kept translation back as text and translation, with the model of its languages where there is one. */
    fun reopen(entry: KeptTranslation) {
        val languages = entry.languages
        if (languages != null && services.models.selected?.languages != languages) {
            services.models.find(languages)?.let(services.models::select)
        }
        services.translate.replace(entry.source, TranslateSession.Reason.FROM_HISTORY, entry.target, languages)
    }

    private fun entriesIn(vararg places: Place) = Screens.all.filter { it.place in places }

    private fun keepState() {
        screen?.let { states.putBundle(screenId, Bundle().also(it::onSaveState)) }
    }

    private fun put() {
        screen?.let { if (isStarted) it.onStop() }
        val entry = Screens.entry(shown)
        val next = entry.make()
        next.host = this
        screen = next
        screenId = entry.id
        content.removeAllViews()
        content.addView(next.create(content, states.getBundle(entry.id)))
        title = getString(entry.title)
        findViewById<TextView>(R.id.toolbar_title).text = title
        NewerApi.setPaneTitle(content, title)
        navigation.mark(entry.id)
        updateToolbar()
        if (isStarted) next.onStart()
    }

    private fun updateToolbar() {
        val canGoBack = Screens.entry(shown).place != Place.NAVIGATION
        toolbar.navigationIcon = if (canGoBack) getDrawable(R.drawable.ic_back) else null
        toolbar.navigationContentDescription = if (canGoBack) getString(R.string.back) else null
        toolbar.menu.clear()
        screen?.onCreateActions(toolbar.menu)
        for ((index, entry) in menuEntries.withIndex()) {
            if (entry.id == shown) continue
            val isButton = entry.place == Place.QUICK && shown == Screens.TRANSLATE
            toolbar.menu.add(Menu.NONE, FIRST_OVERFLOW_ID + index, FIRST_OVERFLOW_ID + index, entry.title)
                .setIcon(entry.icon)
                .setShowAsAction(if (isButton) MenuItem.SHOW_AS_ACTION_IF_ROOM else MenuItem.SHOW_AS_ACTION_NEVER)
        }
        giveBack?.invoke()
        giveBack = if (path.size > 1) NewerApi.takeBack(this, ::goBack) else null
    }

    private val menuEntries: List<ScreenEntry> get() = entriesIn(Place.QUICK, Place.OVERFLOW)

    private fun onMenuItem(item: MenuItem): Boolean {
        if (screen?.onAction(item.itemId) == true) return true
        val entry = menuEntries.getOrNull(item.itemId - FIRST_OVERFLOW_ID) ?: return false
        show(entry.id)
        return true
    }

    private fun fit(edges: Edges) {
        val keyboard = if (edges.isKeyboardShown) edges.bottom else 0
        findViewById<View>(R.id.root).setPadding(edges.left, edges.top, edges.right, keyboard)
        // A keyboard leaves little room: the bar would take a part of it and is not needed while typing.
        val isRail = resources.getBoolean(R.bool.navigation_is_rail)
        navigationFrame.visibility = if (edges.isKeyboardShown && !isRail) View.GONE else View.VISIBLE
        val below = if (edges.isKeyboardShown) 0 else edges.bottom
        navigationFrame.setPadding(0, 0, 0, below)
        if (isRail) content.setPadding(0, 0, 0, below)
    }

    /** Accepts a text that another app shares; not again when the window comes back from the list of recent apps. */
    private fun acceptText(intent: Intent): Boolean {
        val isOld = intent.flags and Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY != 0
        if (intent.action != Intent.ACTION_SEND || isOld) return false
        val text = IncomingText.read(intent, Intent.EXTRA_TEXT, services.log) ?: return false
        services.translate.replace(text, TranslateSession.Reason.SHARED)
        return true
    }

    private companion object {
        const val PATH = "path"
        const val STATES = "states"
        const val FIRST_OVERFLOW_ID = 1000
    }
}
