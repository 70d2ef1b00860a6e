// For Android Studio. Not run in our continuous integration, which builds with `make apk` and needs neither Gradle nor an
// SDK: what the two builds share is the sources. See docs/android.md.

pluginManagement {
    repositories {
        google()
        mavenCentral()
        gradlePluginPortal()
    }
    plugins {
        id("com.android.application") version "8.13.0"
        id("org.jetbrains.kotlin.android") version "2.4.21"
        id("org.jetbrains.kotlin.jvm") version "2.4.21"
    }
}

dependencyResolutionManagement {
    repositoriesMode = RepositoriesMode.FAIL_ON_PROJECT_REPOS
    repositories {
        google()
        mavenCentral()
    }
}

rootProject.name = "lite-nlp-demo"
include(":core", ":desktop", ":app")
