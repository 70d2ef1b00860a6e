"""Chromium without a window: what it shows of a page, measures in it and complains about."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

__all__ = ["MEASURE", "Browser"]

#: What a script can tell about the page once it is laid out.
MEASURE = """<script>
const box = element => { const r = element.getBoundingClientRect(); return [r.width, r.height]; };
const all = selector => [...document.querySelectorAll(selector)];
document.body.dataset.measured = JSON.stringify({
  charts: all("svg").map(box),
  bars: all("svg rect[height='34']").map(box),
  curves: all("svg polyline").map(box),
  gauges: all(".track .filled").map(box),
  tracks: all(".track").map(box),
  cut_texts: all("svg text").filter(t => {
    const inner = t.getBoundingClientRect(), outer = t.closest("svg").getBoundingClientRect();
    return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
  }).map(t => t.textContent),
  page_width: document.documentElement.scrollWidth,
  window_width: window.innerWidth,
  loaded: performance.getEntriesByType("resource").map(entry => entry.name),
});
</script>"""


#: A window narrower than the browser allows: the page in a frame, whose width its style follows as on a phone.
FRAME = """<!doctype html><body style="margin:0"><iframe id="phone" width="{width}" height="900" style="border:0"
srcdoc="{page}"></iframe><script>document.getElementById("phone").onload = event => {{
  const root = event.target.contentDocument.documentElement;
  const wide = [...root.querySelectorAll("body *")].filter(element => !element.closest(".scroll, svg")
    && element.getBoundingClientRect().right > root.clientWidth + 1).map(element => element.outerHTML.slice(0, 80));
  document.body.dataset.measured = JSON.stringify({{
    page_width: root.scrollWidth, window_width: root.clientWidth, wide: wide }});
}};</script>"""


class Browser:
    """Starts chromium on a page, each time with a fresh profile."""

    def __init__(self, profile: Path) -> None:
        names = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
        found = next((path for name in names if name and (path := shutil.which(name))), None)
        if found is None:
            pytest.fail("expected chromium on the path or in CHROMIUM, found none; `make chromium` installs it")
        self._command = [found, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        self._command += ["--no-first-run", "--disable-background-networking", f"--user-data-dir={profile}"]

    def _run(self, page: Path, *options: str) -> str:
        return self._start(page, *options).stdout

    def _start(self, page: Path, *options: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self._command, *options, page.as_uri()], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    def console(self, page: Path) -> list[str]:
        """What the page made the browser complain about: errors, and whatever its policy kept it from loading."""
        done = self._start(page, "--enable-logging=stderr", "--dump-dom")
        return [line for line in done.stderr.splitlines() if ":CONSOLE" in line]

    def dom(self, page: Path, *, width: int = 1100) -> str:
        return self._run(page, f"--window-size={width},1000", "--dump-dom")

    def measure(self, page: Path, *, width: int = 1100) -> dict[str, Any]:
        """The sizes that ``MEASURE`` finds in a copy of the page that lets it run."""
        content = page.read_text(encoding="utf-8")
        policy = re.search(r"<meta http-equiv=[^>]*>", content)
        assert policy is not None
        copy = page.with_name("measured.html")
        copy.write_text(content.replace(policy[0], "").replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
        return self._measured(copy, width=width)

    def measure_phone(self, page: Path, *, width: int) -> dict[str, Any]:
        """The width of the page in a window of ``width``, and the elements that stick out of it."""
        content = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text(encoding="utf-8"))
        frame = page.with_name("frame.html")
        frame.write_text(FRAME.format(width=width, page=escape(content, quote=True)), encoding="utf-8")
        return self._measured(frame, width=1100)

    def _measured(self, page: Path, *, width: int) -> dict[str, Any]:
        measured = re.search(r'data-measured="([^"]*)"', self.dom(page, width=width))
        assert measured is not None
        found: dict[str, Any] = json.loads(unescape(measured[1]))
        return found

    def screenshot(self, page: Path, *, scheme: str) -> Mapping[str, int]:
        """How many pixels of the page have which colour, in the light or the dark scheme."""
        path = page.with_suffix(".png")
        preferred = {"dark": 0, "light": 1}[scheme]
        self._run(
            page,
            f"--blink-settings=preferredColorScheme={preferred}",
            "--window-size=1100,2600",
            f"--screenshot={path}",
        )
        with Image.open(path) as image:
            pixels = image.convert("RGB").getcolors(maxcolors=1 << 24) or []
        return {"#{:02x}{:02x}{:02x}".format(*colour): number for number, colour in pixels}
