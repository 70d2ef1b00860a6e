"""The library's operations, one module for each: what the commands call, and what ``import lite_nlp`` offers."""
