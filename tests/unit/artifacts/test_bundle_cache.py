"""The cache of bundles made of models that are none. Exporting takes a minute and is tested elsewhere."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.artifacts import cache
from lite_nlp.artifacts.cache import cached_bundle
from lite_nlp.artifacts.models import LoadedModel, Source, resolve_source
from lite_nlp.core.cache import cache_folder
from lite_nlp.core.errors import MissingExtraError, ModelError
from lite_nlp.core.progress import SilentProgress
from tests.integration.conftest import write_model
from tests.integration.small_bundle import record_work, write_small_bundle


@pytest.fixture
def source(tmp_path: Path) -> Source:
    write_model(tmp_path / "tiny", ["a few words", "and a few more"], family="transformer", num_heads=2)
    return resolve_source(tmp_path / "tiny")


@pytest.fixture
def exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Names, runtimes and progress of what is exported into a cache of this test's own."""
    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path / "cache"))
    made: list[Any] = []

    def write(path: Path, loaded: LoadedModel, *, source: Source, runtimes: Any, force: bool, progress: Any) -> None:
        assert force
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_small_bundle(path, record_work())
        made.append((loaded.name, runtimes, progress))

    monkeypatch.setattr(cache, "write_model_bundle", write)
    return made


def test_a_model_is_exported_once(source: Source, exports: list[Any]) -> None:
    progress = SilentProgress()
    path = cached_bundle(source, progress=progress)
    assert path.is_relative_to(cache_folder())
    assert cached_bundle(source) == path
    assert exports == [("tiny", None, progress)]
    # A bundle for all runtimes has the graphs of each.
    assert cached_bundle(source, runtime="onnx") == path
    assert len(exports) == 1


def test_a_model_is_exported_for_the_runtime_that_is_asked_for(source: Source, exports: list[Any]) -> None:
    path = cached_bundle(source, runtime="onnx")
    assert cached_bundle(source, runtime="onnx") == path
    paths = {path, cached_bundle(source, runtime="executorch"), cached_bundle(source)}
    assert [runtimes for _, runtimes, _ in exports] == [["onnx"], ["executorch"], None]
    assert len(paths) == 3


@pytest.mark.parametrize("name", ["config.toml", "metrics.json", "model.safetensors", "tokenizer.json"])
def test_whatever_changes_of_the_model_makes_another_bundle(
    source: Source, exports: list[Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {cached_bundle(source)}
    file = source.path / name
    changed = file.read_bytes() + b"\n"
    monkeypatch.setattr(cache, "load_model", lambda source: LoadedModel(None, None, None, source.name, {}))
    file.write_bytes(changed)
    paths.add(cached_bundle(source))
    assert len(paths) == len(exports) == 2


@pytest.mark.parametrize(
    ("name", "value"),
    [("__version__", "9.9"), ("_EXPORT_VERSION", 99), ("RUNTIMES", {}), ("_installed", lambda name: "9")],
)
def test_whatever_changes_of_the_export_makes_another_bundle(
    source: Source, exports: list[Any], name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = cached_bundle(source)
    monkeypatch.setattr(cache, name, value)
    assert cached_bundle(source) != before
    assert len(exports) == 2


def test_a_damaged_bundle_is_made_again(source: Source, exports: list[Any]) -> None:
    path = cached_bundle(source)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert cached_bundle(source).read_bytes() == whole
    assert len(exports) == 2


def test_a_model_that_cannot_be_read(source: Source, exports: list[Any]) -> None:
    (source.path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"tiny: expected a readable model, found: .*No such file"):
        cached_bundle(source)
    assert exports == []


def test_without_torch(source: Source, exports: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def load(source: Source) -> LoadedModel:
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(cache, "load_model", load)
    monkeypatch.setattr("lite_nlp.core.extras.find_spec", lambda name: None if name == "torch" else find_spec(name))
    expected = r"tiny: export of a model directory .* needs the extra lite-nlp\[export\], .*\(torch is not installed\)"
    with pytest.raises(MissingExtraError, match=expected):
        cached_bundle(source)
