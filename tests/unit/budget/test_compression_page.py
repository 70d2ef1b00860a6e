"""The page of a compression: its figures are those of the ledger, and nothing in it is more than text."""

import copy
import re
import sys
from html import unescape
from html.parser import HTMLParser
from typing import Any

import pytest

from lite_nlp.budget.reporting.compression import KIND_NAMES, draw_ledger, render_compression
from lite_nlp.compress.lnlp.composition import KINDS

HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7 * 7 }}</title></style>'&"


def _kinds(**found: int) -> dict[str, int]:
    return {**dict.fromkeys(KINDS, 0), **found}


def _row(stage: str, bleu: float, by_kind: dict[str, int], change: dict[str, float] | None = None) -> dict[str, Any]:
    size_bytes = sum(by_kind.values())
    return {
        "stage": stage,
        "file": f"{stage}.lnlp",
        "size_bytes": size_bytes,
        "ratio": round(10_000 / size_bytes, 3),
        "sparsity": 0.25,
        "bits_per_weight": 3.5,
        "macs": 2_500_000,
        "estimated_ms": 7.25,
        "scores": {"bleu": bleu, "loss": 1.25},
        "seconds": 61.5,
        "intervals": {"bleu": [bleu - 2, bleu + 3]},
        "against_original": {} if change is None else {"bleu": change},
        "bytes_by_kind": by_kind,
    }


def _tensor(name: str, shape: list[int], by_kind: dict[str, int]) -> dict[str, Any]:
    weights = 1
    for size in shape:
        weights *= size
    size_bytes = sum(by_kind.values())
    return {
        "name": name,
        "shape": shape,
        "encoding": "kmeans+rans",
        "weights": weights,
        "size_bytes": size_bytes,
        "bytes_by_kind": by_kind,
        "sparsity": 0.5,
        "bits_per_weight": 8 * size_bytes / weights,
    }


CHANGE = {"difference": -0.77, "low": -2.9, "high": 0.8, "p": 0.401}
SMALL = _kinds(symbols=1500, codebooks=100, biases=100, vocabulary=250, header=50)


def _matrix(name: str, weights: int, bits: float, price: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "weights": weights,
        "values": 17,
        "step": 0.031,
        "sparsity": 0.25,
        "bits_per_weight": bits,
        "size_bytes": round(bits * weights / 8),
        "fisher": 0.002,
        "predicted": 0.003,
        "price": price,
        "sensitivity": 0.4,
        "probes": [
            {"bits_per_weight": 2.5, "sparsity": 0.3, "predicted": 0.004, "measured": 0.006},
            {"bits_per_weight": 1.0, "sparsity": 0.8, "predicted": 0.05, "measured": -0.01},
        ],
    }


PLAN: dict[str, Any] = {
    "quantizer": "grid",
    "target_bytes": 2000,
    "tolerance": None,
    "vector_bits": 5,
    "compared": [
        {
            "quantizer": "grid",
            "size_bytes": 1990,
            "fits": True,
            "predicted": 0.01,
            "loss": 0.0123,
            "tuned_loss": 0.0045,
        },
        {
            "quantizer": "kmeans",
            "size_bytes": 2345,
            "fits": False,
            "predicted": None,
            "loss": None,
            "tuned_loss": None,
        },
    ],
    "matrices": [_matrix("small.weight", 200, 4.0, None), _matrix("large.weight", 2000, 1.6, 2.5e-7)],
}
LEDGER: dict[str, Any] = {
    "model": "small",
    "text": "200 sentences",
    "metric": "bleu",
    "structured": None,
    "stages": [
        _row("original", 40.0, _kinds(weights=9000, vocabulary=800, header=200)),
        _row(
            "entropy-coded", 39.23, _kinds(symbols=1500, codebooks=100, biases=100, vocabulary=250, header=50), CHANGE
        ),
    ],
    "candidates": [],
    "lower_is_better": False,
    "plan": PLAN,
    "tensors": [
        _tensor("small.weight", [10, 20], {"codebooks": 50, "symbols": 50}),
        _tensor("large.weight", [40, 50], {"codebooks": 50, "symbols": 350}),
        _tensor("norm", [80], {"biases": 60}),
        _tensor("norm.bias", [80], {"biases": 40}),
    ],
    "bootstrap": {"resamples": 1000, "seed": 12345, "examples": 200},
    "reference": None,
    "changed_outputs": {
        "metric": "chrF",
        "total": 200,
        "unchanged": 130,
        "better": 31,
        "worse": 39,
        "rows": [
            {
                "source": "a dog",
                "reference": "ein Hund",
                "before": "ein Hund",
                "after": "eine Katze",
                "score_before": 100.0,
                "score_after": 20.4,
            }
        ],
    },
    "warnings": [],
}
REFERENCE = {
    "model": "transformer",
    "size_bytes": 25_000,
    "macs": 9_000_000,
    "scores": {"bleu": 41.0},
    "intervals": {"bleu": [39.0, 43.0]},
}


STRUCTURED = {
    "macs": {"before": 9_000_000, "after": 7_000_000},
    "expected_loss": 0.1071,
    "measured_loss": 0.1068,
    "removed": [
        {"kind": "encoder layers", "key": "model.num_encoder_layers", "before": 4, "after": 3, "positions": [2]}
        | {"expected_loss": 0.0361}
    ],
}


class _Page(HTMLParser):
    """Collects tags with their attributes, and the text outside of style sheets."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(content)
        assert self.open == []

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


def _with_reference() -> dict[str, Any]:
    ledger = copy.deepcopy(LEDGER)
    ledger["reference"] = REFERENCE
    for row in ledger["stages"]:
        row |= {"reference_ratio": 25_000 / row["size_bytes"], "against_reference": {"bleu": {**CHANGE, "p": 0.001}}}
    return ledger


def test_every_kind_of_bytes_has_a_name_and_a_colour_of_its_own() -> None:
    assert set(KIND_NAMES) == set(KINDS)
    assert sorted(slot for _, slot in KIND_NAMES.values()) == list(range(9))


def test_the_figures_of_the_ledger_are_there() -> None:
    text = _Page(render_compression(LEDGER)).text
    for words in (
        "5.00x smaller",
        "10 KB to 2 KB",
        "40.00 (38.00 to 43.00)",
        "39.23 (37.23 to 42.23)",
        "-0.77 (-2.90 to +0.80), p = 0.401: no difference from the original beyond chance",
        "2,500,000, unchanged",
        "130 of 200 unchanged; of the others 31 are nearer to the reference and 39 further from it",
        "123 seconds",
        "1,000 resampled test sets of 200 examples",
        "symbols 0 1,500 75.0%",
        "vocabulary 800 250 12.5%",
        "a dog ein Hund ein Hund eine Katze 100 to 20",
    ):
        assert words in text, words
    # Not there: kinds without bytes, and the reference that was not asked for.
    assert "lane states" not in text
    assert "compared with" not in text


def test_the_plan_explains_every_matrix() -> None:
    text = _Page(render_compression(LEDGER)).text
    for words in (
        "The least expected loss within 2,000 bytes, for all matrices together, by grid ; biases and norms have 5 bits",
        "grid 1,990 0.01 0.0123 0.0045 chosen",
        "kmeans 2,345 too large, at its coarsest",
        "1 large.weight 2,000 17 1.60 25% 400 2.5 bits: 4, 6 1.0 bits: 50, -10 2 3 0.25",
        "2 small.weight 200 17 4.00 25% 100",
        "all 2 matrices 2,200 1.82 25% 500 4 6",
        "2 of 2 matrices, from 1.60 to 4.00 bits per weight, 1.82 on average",
    ):
        assert words in text, words
    free = copy.deepcopy(LEDGER)
    free["plan"] |= {"target_bytes": None, "tolerance": 0.015, "vector_bits": None}
    text = _Page(render_compression(free)).text
    assert "The fewest bytes whose loss, measured with all matrices stored so, rises by at most 0.015" in text
    assert "biases and norms have 16 bits" in text
    # The plan that was taken rises by 0.0123.
    free["plan"]["tolerance"] = 0.01
    assert (
        "No plan keeps the loss within a rise of 0.01: that of the least loss" in _Page(render_compression(free)).text
    )


@pytest.mark.parametrize("plan", [None, 3, {"quantizer": "grid"}, {**PLAN, "matrices": []}])
def test_a_ledger_without_a_plan_has_no_section_of_it(plan: object) -> None:
    assert "Why each matrix" not in render_compression({**LEDGER, "plan": plan})


def test_matrices_are_sorted_and_vectors_are_one_row() -> None:
    page = render_compression(LEDGER)
    table = page[page.index('<section id="matrices"') :]
    rows = re.findall(r'<th scope="row"><bdi>(.*?)</bdi></th>(.*?)</tr>', table)
    assert [name for name, _ in rows] == ["large.weight", "small.weight", "2 biases, norms and buffers"]
    cells = [re.findall(r"<td[^>]*>([^<]*)</td>", content) for _, content in rows]
    assert [unescape(cell).replace("\u00a0", " ") for cell in cells[0]] == [
        "40 x 50", "kmeans+rans", "2,000", "50.0%", "1.60", "400",
    ]  # fmt: skip
    assert cells[2][2:] == ["160", "50.0%", "5.00", "100"]
    # The longest bar is that of the largest; its colours have the shares of its kinds.
    assert re.findall(r'class="bar" style="width:([0-9.]+)%"', table) == ["100.00", "25.00", "25.00"]
    parts = re.findall(r'<span class="b(\d)"[^>]*style="width:([0-9.]+)%"', rows[0][1])
    assert parts == [
        ("2", "12.50"),
        ("1", "87.50"),
    ]


def test_of_many_matrices_the_smallest_are_one_row() -> None:
    tensors = [_tensor(f"w{size}", [10, 10], {"symbols": size}) for size in range(1, 71)]
    page = render_compression({**LEDGER, "tensors": tensors})
    assert "10 further matrices" in page
    assert "<bdi>w11</bdi>" in page
    assert "<bdi>w10</bdi>" not in page


def test_a_reference_is_beside_the_stages_and_in_the_plot() -> None:
    ledger = _with_reference()
    text = _Page(render_compression(ledger)).text
    assert "25,000 bytes as fp32, BLEU 41.00 (39.00 to 43.00), 9,000,000 Mult-Adds" in text
    assert "the final file is 12.50x smaller, difference -0.77 (-2.90 to +0.80), p = 0.001" in text
    assert "7.2 ms at least, by an estimate for one core of a Cortex-A72 with weights in fp32" in text
    panel = draw_ledger(ledger)
    assert panel is not None
    assert [(mark.name, mark.apart) for mark in panel.marks] == [
        ("original", False), ("entropy-coded", False), ("transformer", True),
    ]  # fmt: skip
    # The line joins the stages alone.
    assert len(panel.trail.split()) == 2
    low, high = panel.marks[0].whisker or (0, 0)
    assert low > panel.marks[0].y > high


def test_a_module_without_examples_has_a_page_too() -> None:
    ledger = copy.deepcopy(LEDGER) | {"bootstrap": None, "changed_outputs": None, "warnings": ["too much was lost"]}
    for row in ledger["stages"]:
        row |= {"intervals": {}, "against_original": {}, "macs": None, "estimated_ms": None}
    text = _Page(render_compression(ledger)).text
    assert "too much was lost" in text
    assert "BLEU after 39.23" in text
    for words in ("resampled", "Outputs that changed", "difference -", "Cortex-A72"):
        assert words not in text


def test_the_page_loads_nothing_and_runs_nothing() -> None:
    content = render_compression(_with_reference())
    page = _Page(content)
    attributes = {name for _, attrs in page.tags for name in attrs}
    assert attributes.isdisjoint({"src", "href", "srcset", "xlink:href", "action"})
    assert not [name for name in attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|https?:|//\w", content)
    assert "default-src 'none'; style-src 'unsafe-inline'" in content
    ids = [attrs["id"] for _, attrs in page.tags if attrs.get("id")]
    assert len(ids) == len(set(ids))


def test_hostile_texts_are_text() -> None:
    hostile = _with_reference()
    hostile |= {"model": HOSTILE, "text": HOSTILE, "warnings": [HOSTILE]}
    hostile["reference"] = {**REFERENCE, "model": HOSTILE}
    hostile["tensors"][0]["name"] = HOSTILE
    hostile["plan"]["matrices"][0]["name"] = hostile["plan"]["compared"][1]["quantizer"] = HOSTILE
    for key in ("source", "reference", "before", "after"):
        hostile["changed_outputs"]["rows"][0][key] = HOSTILE
    content = render_compression(hostile)
    assert "<script" not in content
    assert "<img" not in content
    plain = _with_reference() | {"warnings": ["lost"]}
    assert [tag for tag, _ in _Page(content).tags] == [tag for tag, _ in _Page(render_compression(plain)).tags]


def test_pages_are_made_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert render_compression(LEDGER).startswith("<!doctype html>")


def test_removed_units_have_a_section() -> None:
    assert 'id="structured"' not in render_compression(LEDGER)
    page = render_compression({**LEDGER, "structured": STRUCTURED})
    section = page.partition('<section id="structured">')[2].partition("</section>")[0]
    for text in ("9,000,000", "7,000,000", "0.1071", "0.1068", "encoder layers", "positions 2", "0.0361"):
        assert text in section
