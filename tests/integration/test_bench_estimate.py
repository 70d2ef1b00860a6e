"""``lite-nlp bench --estimate``: a table and JSON that say what they are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import LiteNlp
from tests.integration.small_bundle import record_work, write_small_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle without graphs, which nothing could run."""
    return write_small_bundle(tmp_path_factory.mktemp("estimate") / "tiny.zip", record_work())


def test_the_table_says_that_nothing_was_measured(bundle: Path, lite_nlp: LiteNlp) -> None:
    done = lite_nlp("bench", bundle, "--estimate", "cortex-a72", "--beam", "2")
    assert done.code == 0, done.err
    assert "Estimate, not measured: tiny" in done.out
    assert "beam 2" in done.out
    assert "At best on Cortex-A72" in done.out
    assert "48 GFLOPS, 4.8 GB/s" in done.out


def test_a_language_model_has_no_source(lite_nlp: LiteNlp) -> None:
    content = lite_nlp.json("bench", "tinyshakespeare-transformer", "--estimate", "cortex-a72")
    assert content["lengths"] == {"src": 0, "tgt": 30}
    done = lite_nlp("bench", "tinyshakespeare-transformer", "--estimate", "cortex-a72")
    assert "tinyshakespeare-transformer, 30 tokens, beam 1" in " ".join(done.out.split())


def test_the_object_and_the_file_are_the_same(bundle: Path, tmp_path: Path, lite_nlp: LiteNlp) -> None:
    path = tmp_path / "estimate.json"
    content = lite_nlp.json("bench", bundle, "--estimate", "cortex-a72", "--out", path)
    assert content["estimate"] is True
    assert json.loads(path.read_text(encoding="utf-8")) == content
    refused = lite_nlp("bench", bundle, "--estimate", "cortex-a72", "--out", path)
    assert (refused.code, refused.out) == (1, "")
    # A report shows measurements alone.
    report = lite_nlp("report", bundle, "--bench-json", path, "--html", tmp_path / "page.html")
    assert report.code == 1
    assert "expected the JSON of lite-nlp bench" in report.message


def test_the_page_lists_the_keys(bundle: Path, lite_nlp: LiteNlp) -> None:
    page = (Path(__file__).parents[2] / "docs" / "bench-schema.md").read_text(encoding="utf-8")
    lines = page.partition("\n## JSON of an estimate\n")[2].splitlines()
    documented = {key for line in lines if line[:3] == "| `" for key in re.findall(r"`([^`]+)`", line.split("|")[1])}

    def keys(value: Any, prefix: str = "") -> Iterator[str]:
        if isinstance(value, dict):
            for key, inner in value.items():
                place = re.sub(r"(^|\.)(encode|token)$", r"\1PART", f"{prefix}.{key}" if prefix else key)
                yield from keys(inner, place)
        elif isinstance(value, list):
            yield from keys(value[0], f"{prefix}[]")
        else:
            yield prefix

    assert set(keys(lite_nlp.json("bench", bundle, "--estimate", "cortex-a72"))) == documented


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--estimate", "pentium"], 2, "--estimate: expected one of cortex-a72, found 'pentium'"),
        (["--estimate", "cortex-a72", "--threads", "2"], 2, "--threads: expected no --estimate with it"),
        (["--estimate", "cortex-a72", "--runtime", "onnx"], 2, "--runtime: expected no --estimate with it"),
        (["--estimate", "cortex-a72", "--input", "nothing.txt"], 2, "--input: expected no --estimate with it"),
        (["--estimate", "cortex-a72", "--repeats", "3"], 2, "--repeats: expected no --estimate with it"),
        (["--estimate", "cortex-a72", "--warmup", "0"], 2, "--warmup: expected no --estimate with it"),
    ],
)
def test_bad_input(bundle: Path, lite_nlp: LiteNlp, words: list[str], code: int, message: str) -> None:
    done = lite_nlp("bench", bundle, *words)
    assert (done.code, done.out) == (code, "")
    assert message in done.message
