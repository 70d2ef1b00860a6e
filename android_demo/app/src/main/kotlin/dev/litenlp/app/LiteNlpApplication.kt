package dev.litenlp.app

import android.app.Activity
import android.app.Application
import android.content.ComponentCallbacks2
import android.os.Bundle
import dev.litenlp.app.engine.ExecuTorchEngineFactory
import dev.litenlp.app.engine.OnnxEngineFactory
import dev.litenlp.app.models.AssetArchives

/** Creates the [Services], and frees memory while the app is in the background. */
open class LiteNlpApplication : Application() {
    lateinit var services: Services
        private set

    private var visibleActivities = 0
    private val unloadUnused = Runnable { services.unloadEngines("not in use") }

    /** The services of this process. */
    protected open fun createServices(): Services = Services(
        context = this,
        factories = listOf(OnnxEngineFactory, ExecuTorchEngineFactory()),
        archives = AssetArchives(assets),
    )

    override fun onCreate() {
        super.onCreate()
        begin(createServices())
        recordCrashes()
        registerActivityLifecycleCallbacks(Visibility())
    }

    /** Installs the services. */
    protected fun begin(made: Services) {
        services = made
        services.log.adoptCrash()
        services.log.info("started, version ${Services.versionName(this)}")
        services.models.start()
        services.translate.restore()
    }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        // RUNNING_LOW and RUNNING_CRITICAL lie below UI_HIDDEN, which is no pressure: the delay of Visibility is for that.
        @Suppress("DEPRECATION")
        val isPressing = level >= ComponentCallbacks2.TRIM_MEMORY_BACKGROUND ||
            level in ComponentCallbacks2.TRIM_MEMORY_RUNNING_LOW..ComponentCallbacks2.TRIM_MEMORY_RUNNING_CRITICAL
        if (isPressing) services.unloadEngines("memory is short, level $level")
    }

    private fun recordCrashes() {
        val before = Thread.getDefaultUncaughtExceptionHandler()
        Thread.setDefaultUncaughtExceptionHandler { thread, error ->
            services.log.recordCrash(thread, error)
            before?.uncaughtException(thread, error)
        }
    }

    private inner class Visibility : ActivityLifecycleCallbacks {
        override fun onActivityStarted(activity: Activity) {
            visibleActivities++
            services.main.removeCallbacks(unloadUnused)
        }

        override fun onActivityStopped(activity: Activity) {
            visibleActivities--
            if (visibleActivities > 0) return
            services.firstUses.dismiss()
            services.main.postDelayed(unloadUnused, UNLOAD_DELAY_MS)
        }

        override fun onActivityCreated(activity: Activity, state: Bundle?) = Unit
        override fun onActivityResumed(activity: Activity) = Unit
        override fun onActivityPaused(activity: Activity) = Unit
        override fun onActivitySaveInstanceState(activity: Activity, state: Bundle) = Unit
        override fun onActivityDestroyed(activity: Activity) = Unit
    }

    private companion object {
        /** Who looks something up elsewhere and comes back within this finds the model still loaded. */
        const val UNLOAD_DELAY_MS = 60_000L
    }
}
