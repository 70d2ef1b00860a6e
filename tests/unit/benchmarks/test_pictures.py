"""The pictures of README and docs: drawn from a ledger, small, and loading nothing."""

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from lite_nlp import check_budget

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"

STAGES = [
    {"stage": "original", "size_bytes": 2_000_000, "scores": {"bleu": 40.04}},
    {"stage": "pruned", "size_bytes": 1_000_000, "scores": {"bleu": 38.5}},
    {"stage": "entropy-coded", "size_bytes": 400_000, "scores": {"bleu": 39.0}},
]
LEDGER = {"model": "tatoeba-en-de", "metric": "bleu", "text": "some <sentences>", "stages": STAGES}


@pytest.fixture(scope="module")
def pictures() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "benchmarks" / "pictures.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_picture_of_a_model_has_the_figures_of_its_ledger(pictures: ModuleType) -> None:
    picture = pictures.draw_model(LEDGER, check_budget(), title="t")
    root = ElementTree.fromstring(picture)  # noqa: S314 - our own
    text = " ".join("".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text"))
    for words in (
        "2.00 MB",
        "400 KB",
        "40.0",
        "38.5",
        "5.0 times smaller, -1.0 BLEU",
        "SOME <SENTENCES>",
        "19% of 500M",
    ):
        assert words in text
    widths = [float(rect.get("width", "")) for rect in root.iter("{http://www.w3.org/2000/svg}rect")][5:]
    assert widths == pytest.approx([372.0, 186.0, 74.4])
    assert pictures.draw_model(LEDGER, check_budget(), title="t") == picture


def test_the_ledger_of_another_model_is_refused(
    pictures: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ledger.json").write_text(json.dumps({**LEDGER, "model": "other"}), encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["pictures.py", str(tmp_path / "ledger.json"), "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="expected the ledger of tatoeba-en-de, found that of other"):
        pictures.main()


@pytest.mark.parametrize("name", ["one-model.svg", "budget-terminal.svg"])
def test_pictures_of_the_docs_are_small_and_load_nothing(name: str) -> None:
    picture = (IMAGES / name).read_text(encoding="utf-8")
    assert len(picture) < 60_000
    ElementTree.fromstring(picture)  # noqa: S314 - our own
    assert not re.search(r"@font-face|url\((?!#)|href=", picture)
    assert (IMAGES / "report.png").stat().st_size < 200_000


def test_the_docs_show_todays_budget_of_the_shipped_model(pictures: ModuleType) -> None:
    assert pictures.draw_terminal(check_budget()) == (IMAGES / "budget-terminal.svg").read_text(encoding="utf-8")
