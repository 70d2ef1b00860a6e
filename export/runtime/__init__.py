"""Translation from a bundle without torch."""

from export.runtime.bundle import Bundle, open_bundle
from export.runtime.engines import create_engine

__all__ = ["Bundle", "create_engine", "open_bundle"]
