// For Android Studio; not run in our continuous integration, where these AARs and the Android plugin are not to be had.
// `PYTHONPATH=android_demo .venv/bin/python -m tools assets` in the repository's root makes the assets: the model as a
// compact bundle, and the licences.

import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    id("com.android.application")
    id("org.jetbrains.kotlin.android")
}

// Why these versions: Versions in docs/android.md.
val onnxRuntime = "com.microsoft.onnxruntime:onnxruntime-android:1.24.3"
val onnxRuntimeFiles: Configuration by configurations.creating
val onnxRuntimeFolder = layout.buildDirectory.dir("onnxruntime")

android {
    namespace = "dev.litenlp.app"
    compileSdk = 35

    defaultConfig {
        applicationId = "dev.litenlp.app"
        minSdk = 26
        targetSdk = 35
        versionCode = 1
        versionName = "0.1.0"
        ndk {
            abiFilters += listOf("arm64-v8a", "x86_64")
        }
        externalNativeBuild {
            cmake {
                arguments += listOf(
                    "-DONNXRUNTIME=${onnxRuntimeFolder.get().asFile}",
                    "-DANDROID_STL=none",
                    "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON",
                )
            }
        }
    }

    externalNativeBuild {
        cmake {
            path = file("CMakeLists.txt")
        }
    }

    sourceSets["main"].assets.srcDir(rootDir.resolve("build/assets"))

    compileOptions {
        sourceCompatibility = JavaVersion.VERSION_1_8
        targetCompatibility = JavaVersion.VERSION_1_8
    }

    packaging {
        // As in the manifest: deflated in the package, extracted by the installer.
        jniLibs.useLegacyPackaging = true
    }

    testOptions {
        unitTests.isIncludeAndroidResources = true
    }
}

kotlin {
    compilerOptions {
        jvmTarget = JvmTarget.JVM_1_8
        freeCompilerArgs.add("-Xjdk-release=8")
    }
}

dependencies {
    implementation(project(":core"))
    implementation("org.pytorch:executorch-android:1.3.1")
    // Its library is used, by the glue in ../native; its Java classes are not.
    implementation(onnxRuntime)
    onnxRuntimeFiles("$onnxRuntime@aar")
    testImplementation(project(":desktop"))
    testImplementation("junit:junit:4.13.2")
    testImplementation("org.robolectric:robolectric:4.16.1")
}

// The headers and libraries that the glue is compiled and linked with.
val unpackOnnxRuntime by tasks.registering(Copy::class) {
    from(provider { zipTree(onnxRuntimeFiles.singleFile) })
    into(onnxRuntimeFolder)
}

tasks.named("preBuild") {
    dependsOn(unpackOnnxRuntime)
}

tasks.withType<Test>().configureEach {
    // Tests of the app make bundles of core's golden vectors.
    classpath += files(rootDir.resolve("core/src/test/resources"))
}
