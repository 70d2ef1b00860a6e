"""``lite_nlp.export`` with a model of the user's own, in ten lines."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lite_nlp.export as lite_export
from lite_nlp.core.errors import BundleError, ModelError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import Bounds, Bundle, ModelCard, create_engine, export_bundle, open_bundle
from tests.unit.export.own_model import TOKENIZER, VOCAB_SIZE, OwnModel, build_own_model

BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)


@pytest.fixture(scope="module")
def own() -> OwnModel:
    return build_own_model()


@pytest.fixture(scope="module")
def bundle(own: OwnModel, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    path = tmp_path_factory.mktemp("own") / "own.zip"
    export_bundle(path, model=own, card=ModelCard(name="own", tokenizer_json=TOKENIZER), bounds=BOUNDS)
    return open_bundle(path)


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
@pytest.mark.parametrize("beam", [1, 3])
def test_it_gives_the_tokens_that_torch_gives(own: OwnModel, bundle: Bundle, runtime: str, beam: int) -> None:
    random = np.random.default_rng(1)
    rows = [random.integers(3, VOCAB_SIZE, length).tolist() for length in range(1, 24)]
    options = SearchOptions(beam_size=beam, max_steps=20)
    engine = create_engine(bundle, runtime=runtime, threads=1)
    expected = [found.tokens for found in search(TorchStepModel(own), rows, options)]
    assert [found.tokens for found in search(engine, rows, options)] == expected
    assert len({tuple(tokens) for tokens in expected}) > 10


def test_the_manifest_holds_what_the_card_left_out(bundle: Bundle) -> None:
    manifest = bundle.manifest
    assert (manifest.vocabulary.src_size, manifest.vocabulary.tgt_size) == (VOCAB_SIZE, VOCAB_SIZE)
    assert bundle.read("config.toml") == b'name = "own"\n'
    assert "metrics.json" not in manifest.files
    assert {runtime: found["agreement"] for runtime, found in manifest.parity.items()} == {
        "onnx": 1.0,
        "executorch": 1.0,
    }
    assert [tensor.origin for tensor in manifest.state] == ["encode", "src_mask", "encode"]
    assert manifest.layout.changing == ["hidden"]


def test_a_tokenizer_that_is_not_the_models(own: OwnModel, tmp_path: Path) -> None:
    damaged = ModelCard(name="own", tokenizer_json=b"{}")
    with pytest.raises(BundleError, match=r"own: tokenizer.json: expected a tokenizer with a vocabulary"):
        export_bundle(tmp_path / "own.zip", model=own, card=damaged)
    short = ModelCard(name="own", tokenizer_json=b'{"model": {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2}}}')
    with pytest.raises(ModelError, match="own: expected logits over 3 types, found 30"):
        export_bundle(tmp_path / "own.zip", model=own, card=short)
    assert list(tmp_path.iterdir()) == []


def test_every_name_is_there_and_nothing_heavy_is_imported_for_it() -> None:
    assert sorted(lite_export.__all__) == lite_export.__all__
    assert all(hasattr(lite_export, name) for name in lite_export.__all__)
    with pytest.raises(AttributeError, match=r"module 'lite_nlp.export' has no attribute 'nothing'"):
        _ = lite_export.nothing
    code = "import lite_nlp.export, sys; print(sorted({'torch', 'numpy', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
