"""Running text for language models: readers, preparation, data directories."""
