import re
import sys
from html.parser import HTMLParser
from typing import Any

import pytest

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, check_limits
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.papers import conformance
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.config.model import LanguageModelConfig, ModelConfig
from lite_nlp.config.preset import load_config

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}</title></style>'&"


def _report(model: ModelConfig, limits: Limits | None = None, **more: Any) -> BudgetReport:
    limits = limits or Limits()
    more = {"target": "a model", "count": None, **more}
    count = more.pop("count") or count_config(model)
    return BudgetReport(model=model, count=count, limits=limits, verdicts=check_limits(count, limits), **more)


class _Page(HTMLParser):
    """Collects tags with their attributes, and the text outside of style sheets."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def model() -> ModelConfig:
    return load_config("lite-transformer-wmt-496").model


def test_the_page_is_well_formed_and_shows_the_numbers(model: ModelConfig) -> None:
    page = _Page(render_page(_report(model)))
    assert page.open == []
    for figure in ("527,436,480", "1,015,485,600", "17,283,616", "33,536,544", "487,587,840", "over budget"):
        assert figure in page.text


def test_the_same_report_gives_the_same_bytes(model: ModelConfig) -> None:
    assert render_page(_report(model)) == render_page(_report(model))


def test_nothing_is_loaded_from_anywhere_and_nothing_runs(model: ModelConfig) -> None:
    content = render_page(_report(model))
    page = _Page(content)
    names = {tag for tag, _ in page.tags}
    assert names.isdisjoint({"script", "img", "iframe", "link", "object", "embed", "base", "form", "a", "use", "image"})
    attributes = {name for _, attrs in page.tags for name in attrs}
    assert attributes.isdisjoint({"src", "href", "srcset", "xlink:href", "action"})
    assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|https?:|//\w", content)
    (policy,) = [attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_hostile_name_is_text_wherever_it_stands(model: ModelConfig) -> None:
    plain = _Page(render_page(_report(model, target="a model"), command="lite-nlp budget a"))
    content = render_page(_report(model, target=HOSTILE), command=f"lite-nlp budget {HOSTILE}")
    page = _Page(content)
    assert [tag for tag, _ in page.tags] == [tag for tag, _ in plain.tags]
    assert page.text.count(HOSTILE) == 3
    assert "<script" not in content


def test_every_chart_has_a_title_a_description_and_a_name_for_every_colour(model: ModelConfig) -> None:
    page = _Page(render_page(_report(model)))
    charts = [attrs for tag, attrs in page.tags if tag == "svg"]
    assert len(charts) == 3
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))
    for attrs in charts:
        assert attrs["role"] == "img"
        assert set((attrs["aria-labelledby"] or "").split()) <= set(ids)
    assert "cross-attention 34.6%" in page.text
    assert "From 17,236,000 at 1 token to 29,128,096,000 at 1000 tokens." in page.text


def test_the_stacked_bars_are_as_long_as_the_shares(model: ModelConfig) -> None:
    """Gaps of 2 between segments aside, cross-attention takes 182,488,320 of the 1,015,485,600 that are 960 wide."""
    page = _Page(render_page(_report(model)))
    bars = [attrs for tag, attrs in page.tags if tag == "rect" and attrs.get("height") == "34"]
    widths = [float(attrs["width"] or 0) for attrs in bars if attrs["class"] == "f3"]
    assert widths[0] == pytest.approx(960 * 182_488_320 / 1_015_485_600 - 2)
    assert widths[1] == pytest.approx(960 * 182_488_320 / 1_015_485_600 - 2)
    assert widths[2] == pytest.approx(960 * 5_916_288 / 33_536_544 - 2)


def test_a_model_of_few_positions_has_curves_as_far_as_it_goes(model: ModelConfig) -> None:
    page = _Page(render_page(_report(model.model_copy(update={"max_positions": 64}))))
    assert "1 to 64 tokens" in page.text
    shortest = model.model_copy(update={"max_positions": 2})
    page = _Page(render_page(_report(shortest, count=count_config(shortest, src_len=2, tgt_len=1))))
    assert "1 to 2 tokens" in page.text


def test_a_language_model_has_one_length() -> None:
    model = LanguageModelConfig(family="transformer", embed_dim=8, ffn_dim=8)
    report = _report(model)
    text = _Page(render_page(report)).text
    assert "One sequence, 1 to 1000 tokens." in text
    assert "source" not in text.split("How it is counted")[0]
    content = report.to_json()
    assert content["lengths"] == {"src": 0, "tgt": 30}
    assert set(content["over_lengths"]) == set(content["growth"]) == {"both"}
    assert {row["src"] for row in content["over_lengths"]["both"]} == {0}
    assert content["growth"]["both"]["paper"]["decoder"] == "quadratic"


@pytest.mark.parametrize(
    ("max_macs", "sentence"),
    [
        (10**13, "Every sentence that the model takes, up to 1024 source and target tokens, fits into 10T Mult-Adds."),
        (1, "Not even one token fits into 1 Mult-Adds."),
    ],
)
def test_how_long_a_sentence_may_be(model: ModelConfig, max_macs: int, sentence: str) -> None:
    assert sentence in _Page(render_page(_report(model, Limits(max_macs=max_macs)))).text


def test_a_preset_is_held_against_what_its_paper_prints(model: ModelConfig) -> None:
    cells = [cell for cell in conformance() if cell.model == "lite-transformer-wmt-496"]
    text = _Page(render_page(_report(model, published=cells))).text
    assert "Against the published figures" in text
    assert "527M" in text
    assert "17.3M" in text
    assert "Against the published figures" not in _Page(render_page(_report(model))).text


def test_pages_are_made_without_torch(monkeypatch: pytest.MonkeyPatch, model: ModelConfig) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert render_page(_report(model)).startswith("<!doctype html>")
