"""Builds and tests the Android demo without an SDK: downloads, Kotlin, resources, native glue, packaging, checks."""
