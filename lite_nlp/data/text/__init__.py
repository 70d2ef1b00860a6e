"""Running text for language models: preparation and data directories."""
