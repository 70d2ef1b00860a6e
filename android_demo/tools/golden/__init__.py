"""Golden vectors: what the Python package makes of chosen inputs, for the Kotlin code to be held against."""
