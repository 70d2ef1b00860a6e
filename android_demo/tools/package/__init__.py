"""The steps from sources to a signed package that an Android SDK and its Gradle plugin would take."""
