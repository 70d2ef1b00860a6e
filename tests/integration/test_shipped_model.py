"""The shipped model: within its limits, useful, and the same from torch, ONNX Runtime and ExecuTorch."""

import subprocess
import sys
from pathlib import Path

import pytest

from lite_nlp.artifacts.bundles import open_any_bundle, packing_of
from lite_nlp.artifacts.models import DEFAULT_MODEL, LoadedModel, list_shipped, load_model, resolve_source
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.packing import pack_members
from lite_nlp.export.parity import compare_engines
from lite_nlp.export.runtime import open_bundle
from lite_nlp.export.runtime.engine import create_engine
from lite_nlp.export.runtime.manifest import CONFIG_FILE, EXECUTORCH_FILE, ONNX_WEIGHTS_FILE
from lite_nlp.export.runtime.recipes import SinusoidPart
from lite_nlp.models.step_model import TorchStepModel
from tests.integration.conftest import LiteNlp

#: Longest joined line, in tokens; the bundle is exported for 256.
LONGEST = 250


@pytest.fixture(scope="module")
def shipped() -> LoadedModel:
    return load_model(None)


@pytest.fixture(scope="module")
def bundle_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shipped") / "model.zip"
    command = [str(Path(sys.executable).with_name("lite-nlp")), "export", "--out", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def rows(shipped: LoadedModel) -> list[list[int]]:
    """400 sentences one by one, then joined to lines of every length up to the longest that the bundle takes."""
    [model] = list_shipped()
    pairs = model.path.with_name("everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
    single = [shipped.tokenizer.encode(pair.split("\t")[0]) for pair in pairs]
    joined: list[list[int]] = []
    for row in single[:60]:
        longer = [*joined[-1], *row] if joined else row
        joined.append(longer if len(longer) <= LONGEST else row)
    return single + joined


def test_it_is_small_and_within_the_budget(lite_nlp: LiteNlp) -> None:
    [model] = list_shipped()
    assert model.name == DEFAULT_MODEL
    assert model.path.stat().st_size <= 4_000_000
    assert lite_nlp("budget", "--check", "--max-size", "4MB").code == 0


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_a_few_hundred_sentences_of_all_lengths_give_the_same_tokens(
    shipped: LoadedModel, bundle_path: Path, rows: list[list[int]], runtime: str
) -> None:
    assert max(map(len, rows)) > 200
    engine = create_engine(open_bundle(bundle_path), runtime=runtime, threads=1)
    report = compare_engines(TorchStepModel(shipped.model), engine, rows, SearchOptions(max_steps=100))
    assert report.disagreements == ()


def test_the_bundle_is_counted_like_the_model(lite_nlp: LiteNlp, bundle_path: Path) -> None:
    of_model = lite_nlp.json("budget")
    of_bundle = lite_nlp.json("budget", bundle_path)
    graphs = of_bundle["macs"].pop("graphs")
    assert graphs["torch"] == graphs["onnx"] == graphs["executorch"]
    # Beyond the method, the graphs multiply empty cache slots and the zeros of a band matrix.
    assert graphs["torch"] > of_bundle["macs"]["executed"]
    assert of_bundle["macs"] == of_model["macs"]
    assert of_bundle["params"] == of_model["params"]
    assert of_bundle["size_bytes"] == bundle_path.stat().st_size
    assert open_bundle(bundle_path).manifest.languages.model_dump() == {"src": "en", "tgt": "de"}


def test_compact_it_is_the_same_bundle_in_four_megabytes(
    shipped: LoadedModel, bundle_path: Path, tmp_path: Path
) -> None:
    plain = open_bundle(bundle_path)
    members = {name: plain.read(name) for name in plain.manifest.files}
    names = [name for name in members if name != CONFIG_FILE]
    files, packed = pack_members(members, names, packing_of(resolve_source(None), shipped))
    manifest = plain.manifest.model_copy(update={"files": describe_files(files), "packed": packed})
    path = tmp_path / "compact.zip"
    write_bundle(path, manifest=manifest, files=files)
    assert path.stat().st_size <= 4_000_000 < bundle_path.stat().st_size
    compact = open_any_bundle(path)
    assert {name: compact.read(name) for name in members} == members
    # Both runtimes have the table of positions, which is in no container.
    for name in (ONNX_WEIGHTS_FILE, EXECUTORCH_FILE):
        [table] = [part.sinusoid for part in packed.members[name].parts if isinstance(part, SinusoidPart)]
        assert (table.rows, table.columns) == (512, 256)


def test_the_bundle_has_the_scores_of_the_card(bundle_path: Path) -> None:
    [model] = list_shipped()
    assert open_bundle(bundle_path).manifest.scores == model.card["scores"]


def test_plain_sentences_come_out_right(lite_nlp: LiteNlp) -> None:
    done = lite_nlp("translate", "--text", "Where is the book?")
    assert done.out.strip() == "Wo ist das Buch?"


def test_whatever_the_line_one_line_comes_out(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    lines = ["Good morning!", "", "   ", "Где находится вокзал?", "word " * 10_000, "🎉🎉 \u0000 tab\there", "Thanks."]
    source = tmp_path / "lines.txt"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = lite_nlp("translate", "--input", source)
    assert done.code == 0, done.err
    translated = done.out.split("\n")[:-1]
    assert len(translated) == len(lines)
    assert translated[1] == translated[2] == ""
    assert "line 4" in done.message
    assert "line 5" in done.message
