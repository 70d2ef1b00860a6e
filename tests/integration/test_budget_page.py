"""The page of ``lite-nlp budget --html`` as a browser shows it: chromium without a window."""

import re
from html import unescape
from pathlib import Path

import pytest

from tests.integration.browser import MEASURE, Browser
from tests.integration.conftest import LiteNlp

PRESET = "lite-transformer-wmt-496"

#: Colours of the groups with Mult-Adds in ``report.css``, light and dark.
COLOURS = {
    "light": ["#2a78d6", "#1baf7a", "#4a3aa7", "#eda100", "#d55181", "#eb6834", "#0e7c86"],
    "dark": ["#3987e5", "#199e70", "#9085e9", "#c98500", "#d55181", "#d95926", "#3aa5b0"],
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("profile"))


@pytest.fixture
def page(lite_nlp: LiteNlp, tmp_path: Path) -> Path:
    path = tmp_path / "budget.html"
    code, _, err = lite_nlp("budget", PRESET, "--html", path)
    assert code == 0, err
    return path


def test_the_browser_shows_the_numbers(browser: Browser, page: Path, lite_nlp: LiteNlp) -> None:
    content = lite_nlp.json("budget", PRESET)
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", browser.dom(page).split("</style>")[1])))
    macs, params = content["macs"], content["params"]
    figures = [params["total"], params["paper"], macs["paper"], macs["executed"], *params["parts"].values()]
    figures += [part[convention] for part in macs["parts"].values() for convention in ("paper", "executed")]
    figures += [row[convention] for row in content["over_lengths"]["both"] for convention in ("paper", "executed")]
    assert [figure for figure in figures if f" {figure:,} " not in text] == []
    assert "over budget" in text
    assert "quadratic" in text


@pytest.mark.parametrize("width", [1100, 500])
def test_charts_and_bars_have_the_size_of_what_they_show(browser: Browser, page: Path, width: int) -> None:
    measured = browser.measure(page, width=width)
    assert len(measured["charts"]) == 3
    assert all(chart[0] > 250 and chart[1] > 80 for chart in measured["charts"])
    # A device draws fractions of a pixel: the bars' widths are in proportion to the figures within that.
    segments = [bar[0] for bar in measured["bars"]]
    assert all(bar[0] > 0 and bar[1] > 15 for bar in measured["bars"])
    scale = measured["charts"][0][0] / 960
    assert segments[2] == pytest.approx(scale * (960 * 182_488_320 / 1_015_485_600 - 2), abs=0.5)
    assert all(curve[0] > 100 and curve[1] > 30 for curve in measured["curves"])
    filled, track = measured["gauges"][0][0], measured["tracks"][0][0]
    # Up to the limit the bar has three quarters of its width.
    assert filled / track == pytest.approx(0.75 * 527_436_480 / 500_000_000, abs=0.01)
    assert measured["cut_texts"] == []
    assert measured["page_width"] <= measured["window_width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_group_is_painted_in_its_colour(browser: Browser, page: Path, scheme: str) -> None:
    pixels = browser.screenshot(page, scheme=scheme)
    assert [colour for colour in COLOURS[scheme] if pixels.get(colour, 0) < 100] == []
    other = {"light": "dark", "dark": "light"}[scheme]
    assert [colour for colour in set(COLOURS[other]) - set(COLOURS[scheme]) if pixels.get(colour, 0) >= 100] == []


def test_the_browser_runs_no_script_of_the_page(browser: Browser, page: Path) -> None:
    """Even if a script got into the page, its own policy would stop it."""
    content = page.read_text(encoding="utf-8")
    page.write_text(content.replace("</body>", f"{MEASURE}</body>"), encoding="utf-8")
    assert "data-measured" not in browser.dom(page)


def test_a_page_is_not_overwritten_without_force(lite_nlp: LiteNlp, page: Path) -> None:
    before = page.read_bytes()
    code, out, err = lite_nlp("budget", PRESET, "--html", page)
    assert (code, out) == (1, "")
    assert "--force" in err
    assert lite_nlp("budget", "transformer-wmt-128", "--html", page, "--force").code == 0
    assert page.read_bytes() != before
    assert sorted(path.name for path in page.parent.iterdir()) == ["budget.html"]


def test_a_page_is_written_over_budget_too(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    path = tmp_path / "new" / "page.html"
    assert lite_nlp("budget", PRESET, "--check", "--html", path).code == 3
    assert "model.embed_dim 496 -&gt; 376" in path.read_text(encoding="utf-8")


def test_a_page_into_a_directory_is_refused(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    code, out, err = lite_nlp("budget", PRESET, "--html", tmp_path)
    assert (code, out) == (1, "")
    assert "expected the path of a file to write, found a directory" in err
