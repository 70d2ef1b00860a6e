"""Published corpora by name: catalogue, downloads, extraction."""
