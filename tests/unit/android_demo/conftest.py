"""The package ``tools`` lies in ``android_demo`` and is not installed; ``class_bytes`` lies here."""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[3] / "android_demo"), str(Path(__file__).parent)]
