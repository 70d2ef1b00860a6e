"""Build and tests of the Android demo without an SDK: downloads, Kotlin, resources, native glue, packaging, checks."""
