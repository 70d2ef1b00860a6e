"""Golden vectors: outputs of the Python package that the Kotlin code must reproduce."""
