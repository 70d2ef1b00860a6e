"""The folder of this user's caches: downloads, and bundles made for runtimes that need one."""

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """``$LITE_NLP_CACHE``, else ``lite-nlp`` in ``$XDG_CACHE_HOME`` or ``~/.cache``; it need not exist.

    A variable that is set to nothing counts as one that is not set.
    """
    if own := os.environ.get("LITE_NLP_CACHE"):
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lite-nlp"
