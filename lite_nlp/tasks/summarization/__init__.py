"""Summarization: pairs of article and summary, scored by ROUGE; training and search are those of translation."""
