"""Bundles of a given size: real compression, and bundles whose graphs are a number of bytes, made in no time."""

import re
from pathlib import Path

import pytest

from lite_nlp.api import export as export_module
from lite_nlp.artifacts.models import LoadedModel, Source, load_model
from lite_nlp.artifacts.packing import packing_of
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.packing import pack_members
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import CONFIG_FILE, METRICS_FILE, TOKENIZER_FILE, Manifest, Vocabulary
from lite_nlp.export.tracing import describe_state
from tests.integration.conftest import LiteNlp, write_model

#: Bytes of the graphs.
GRAPHS = 20_000


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of random weights, 130,000 bytes of them, that says little."""
    path = tmp_path_factory.mktemp("sized") / "tiny"
    sentences = [english for english, _ in read_everyday_pairs()]
    widths = {"embed_dim": 32, "ffn_dim": 64, "num_heads": 2}
    write_model(path, sentences, metrics={"languages": {"src": "fr", "tgt": "en"}}, family="transformer", **widths)
    config = path / "config.toml"
    config.write_text(config.read_text(encoding="utf-8") + "\n[decoding]\nmax_length = 2\n", encoding="utf-8")
    return path


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of the bundles that were written, which have a lump of bytes for graphs."""
    sizes: list[int] = []

    def write(path: Path, loaded: LoadedModel, *, source: Source | None, compact: bool, **_: object) -> Manifest:
        assert compact
        files = {
            CONFIG_FILE: b"",
            METRICS_FILE: b"{}",
            TOKENIZER_FILE: loaded.tokenizer.to_json(),
            "graphs": bytes(GRAPHS),
        }
        files, packed = pack_members(files, [TOKENIZER_FILE], packing_of(source, loaded))
        vocabulary = Vocabulary(src_size=loaded.tokenizer.vocab_size, tgt_size=loaded.tokenizer.vocab_size)
        manifest = Manifest(
            name=loaded.name,
            versions={},
            precision="fp32",
            vocabulary=vocabulary,
            bounds=Bounds(source=24, capacity=20, executorch_batch=4),
            state=describe_state(loaded.encoder_decoder),
            files=describe_files(files),
            packed=packed,
        )
        write_bundle(path, manifest=manifest, files=files, force=True)
        sizes.append(path.stat().st_size)
        return manifest

    monkeypatch.setattr(export_module, "write_model_bundle", write)
    return sizes


def test_the_whole_bundle_keeps_within_the_target(
    lite_nlp: LiteNlp, model: Path, written: list[int], tmp_path: Path
) -> None:
    words = ("export", model, "--out", tmp_path / "small.zip", "--compact", "--no-finetune", "--target-size")
    frame = lite_nlp.json(*words, "1MB")["size_bytes"]
    # The weights as they are were small enough.
    assert written == [frame]
    # Less than with 8 bits for every weight.
    target = frame - 96_000
    done = lite_nlp(*words, str(target), "--force")
    assert done.code == 0, done.err
    size_bytes = (tmp_path / "small.zip").stat().st_size
    # Close to the target, that is as little compressed as it allows, and named as the model.
    assert 0.93 * target < size_bytes <= target
    assert "entropy-coded" in done.out
    assert "which are en to de; the model is fr to en: give --data" in done.message
    assert [path.name for path in tmp_path.iterdir()] == ["small.zip"]


def test_a_target_out_of_reach_is_missed_by_a_number_of_bytes(
    lite_nlp: LiteNlp, model: Path, written: list[int], tmp_path: Path
) -> None:
    done = lite_nlp(
        "export", model, "--out", tmp_path / "small.zip", "--compact", "--no-finetune", "--target-size", "20KB"
    )  # fmt: skip
    assert done.code == 1
    assert "tiny: expected a bundle of at most 20,000 bytes, found " in done.message
    (first,) = written
    container = len(packing_of(None, load_model(model)).container)
    assert f"graphs and manifest alone take {first - container:,}" in done.message
    # The graphs alone are larger than that.
    assert "no smaller dimension that was tried would fit" in done.message
    assert list(tmp_path.iterdir()) == []


def test_smaller_models_that_would_fit_are_named(
    lite_nlp: LiteNlp, model: Path, written: list[int], tmp_path: Path
) -> None:
    words = ("export", model, "--out", tmp_path / "small.zip", "--compact", "--no-finetune", "--target-size")
    lite_nlp.json(*words, "1MB")
    (first,) = written
    container = len(packing_of(None, load_model(model)).container)
    # Of the bytes of weights less than half a bit each.
    target = first - container + 2_500
    done = lite_nlp(*words, str(target), "--force")
    assert done.code == 1
    advice = re.findall(r"embed_dim 32 -> (\d+).*: [\d,]+ parameters, about ([\d,]+) bytes", done.message)
    assert advice
    assert all(int(width) < 32 and int(size.replace(",", "")) <= target for width, size in advice)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--target-size", "1MB"), "--target-size: expected --compact with it"),
        (("--compact", "--no-finetune"), "--no-finetune: expected --target-size with it"),
        (("--compact", "--target-size", "tiny"), "expected a size such as 570KB"),
    ],
)
def test_wrong_usage(lite_nlp: LiteNlp, model: Path, tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    done = lite_nlp("export", model, "--out", tmp_path / "small.zip", *words)
    assert done.code == 2
    assert message in done.message
    assert list(tmp_path.iterdir()) == []
