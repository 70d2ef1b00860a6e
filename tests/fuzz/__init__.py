"""``make fuzz``: hostile files for every parser, in Python and in Kotlin, and a comparison of their verdicts."""
