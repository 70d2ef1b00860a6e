"""CITATION.cff states the version of the package."""

from pathlib import Path

import yaml

import lite_nlp

ROOT = Path(__file__).parents[2]


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == lite_nlp.__version__
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    for reference in citation["references"]:
        assert {"type", "title", "authors"} <= reference.keys()
