"""Translation from a bundle without torch."""

from lite_nlp.export.runtime.bundle import Bundle, open_bundle, open_stored
from lite_nlp.export.runtime.engine import create_engine

__all__ = ["Bundle", "create_engine", "open_bundle", "open_stored"]
