// For Android Studio; not run in our continuous integration.

import org.jetbrains.kotlin.gradle.dsl.JvmTarget

plugins {
    id("org.jetbrains.kotlin.jvm")
}

java {
    sourceCompatibility = JavaVersion.VERSION_1_8
    targetCompatibility = JavaVersion.VERSION_1_8
}

kotlin {
    compilerOptions {
        jvmTarget = JvmTarget.JVM_1_8
        freeCompilerArgs.add("-Xjdk-release=8")
        allWarningsAsErrors = true
    }
}

dependencies {
    implementation(project(":core"))
    implementation("org.json:json:20250517")
    // Why this version: Versions in docs/android.md.
    implementation("com.microsoft.onnxruntime:onnxruntime:1.29.0")
    testImplementation("org.junit.jupiter:junit-jupiter:5.13.4")
    testRuntimeOnly("org.junit.platform:junit-platform-launcher:1.13.4")
}

tasks.test {
    useJUnitPlatform()
    workingDir = rootDir
    systemProperty("litenlp.bundle", rootDir.resolve("../lite_nlp/assets/tatoeba-en-de.zip").path)
}
