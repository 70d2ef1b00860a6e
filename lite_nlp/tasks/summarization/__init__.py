"""Summarization: sentence pairs that are long on one side, scored by ROUGE; trained and searched as translation is."""
