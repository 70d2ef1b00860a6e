"""The pictures of docs/android.md, drawn by the app's tests while the shipped models translate."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import BUILD, ROOT
from tools.base.processes import say
from tools.testing.suites import run_app_tests

__all__ = ["MAX_BYTES", "MAX_TOTAL_BYTES", "PICTURES", "draw_pictures", "shrink_picture"]

PICTURES = ROOT / "docs" / "images" / "android"
# Most bytes of one picture, and of all of them.
MAX_BYTES, MAX_TOTAL_BYTES = 60_000, 600_000
# Screens have few colours; more than these are the edges of letters.
_COLOURS = 128


def draw_pictures(bundles: Sequence[Path]) -> None:
    """Draw all pictures anew; the folder has no others afterwards.

    Args:
        bundles: The models in the app; the first translates.

    Raises:
        BuildError: A screen failed, or the pictures are too large; the old ones stay.
    """
    shutil.rmtree(BUILD / "screenshots" / "docs", ignore_errors=True)
    drawn = run_app_tests(bundles, ["dev.litenlp.app.PicturesTest"], all_pictures=True) / "docs"
    fresh = PICTURES.with_name(f".{PICTURES.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    try:
        sizes = {path.name: shrink_picture(path, fresh / path.name) for path in sorted(drawn.glob("*.png"))}
        large = [f"{name} of {size} bytes" for name, size in sizes.items() if size > MAX_BYTES]
        if not sizes or large or sum(sizes.values()) > MAX_TOTAL_BYTES:
            found = ", ".join(large) or f"{len(sizes)} of {sum(sizes.values())} bytes in total"
            raise BuildError(f"expected pictures of {MAX_BYTES} bytes, {MAX_TOTAL_BYTES} in total, found {found}")
        shutil.rmtree(PICTURES, ignore_errors=True)
        fresh.rename(PICTURES)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    say(f"{len(sizes)} pictures of {sum(sizes.values())} bytes in {PICTURES}")


def shrink_picture(source: Path, target: Path) -> int:
    """Write a PNG with a palette in place of true colours, and return its size in bytes."""
    # Needed for this alone.
    from PIL import Image

    with Image.open(source) as picture:
        # Opaque: the corners of a window over other apps become white.
        ground = Image.new("RGB", picture.size, "white")
        ground.paste(picture, mask=picture.getchannel("A") if picture.mode == "RGBA" else None)
        ground.quantize(_COLOURS, dither=Image.Dither.NONE).save(target, optimize=True)
    return target.stat().st_size
