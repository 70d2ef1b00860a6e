"""A runtime is one row where it runs and one where its graphs are made: shown by one that runs torch's own programs."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp.core.errors import BundleError, ConfigError
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import exporters, pipeline
from lite_nlp.export.bundle_writer import write_archive
from lite_nlp.export.counting.bundle import read_graphs
from lite_nlp.export.counting.torch_programs import count_program_work
from lite_nlp.export.exporter import Exporter, RuntimeGraphs
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.pipeline import ModelCard, export_bundle
from lite_nlp.export.runtime import create_engine, open_bundle
from lite_nlp.export.runtime.interface import GraphRunner, Runtime, RuntimeEntry
from lite_nlp.export.runtime.layout import Bounds, Layout
from lite_nlp.export.runtime.manifest import Manifest
from lite_nlp.export.runtime.registry import RUNTIMES, register_runtime
from lite_nlp.export.tracing import TracedModel
from tests.unit.export.own_model import TOKENIZER, VOCAB_SIZE, build_own_model

#: The batch of one call bounds this runtime too, which nobody splits batches for.
BOUNDS = Bounds(source=24, capacity=20, executorch_batch=32, executorch_sources=32)


class ProgramEntry(RuntimeEntry):
    encode: str
    decode_step: str

    @property
    def members(self) -> tuple[str, ...]:
        return self.encode, self.decode_step

    def open_runner(self, read: Callable[[str], bytes], layout: Layout, *, threads: int) -> GraphRunner:
        return ProgramRunner(layout, *(torch.export.load(io.BytesIO(read(name))).module() for name in self.members))


class ProgramRunner:
    def __init__(self, layout: Layout, encode: Any, decode_step: Any) -> None:
        self._layout, self._encode, self._decode_step = layout, encode, decode_step

    def encode(self, src_tokens: Any, src_mask: Any) -> Any:
        outputs = self._encode(torch.from_numpy(src_tokens), torch.from_numpy(src_mask))
        return {name: value.detach().numpy() for name, value in zip(self._layout.encoded, outputs, strict=True)}

    def decode_step(self, tokens: Any, state: Any) -> Any:
        values = tuple(torch.from_numpy(np.ascontiguousarray(state[name])) for name in self._layout.names)
        logits, *changed = self._decode_step(torch.from_numpy(tokens), values)
        named = zip(self._layout.changing, changed, strict=True)
        return logits.detach().numpy(), {name: value.detach().numpy() for name, value in named}


def _export(traced: TracedModel, search_form: nn.Module, rounding: Rounding, *, compact: bool) -> RuntimeGraphs:
    programs = {"encode": traced.encode, "decode_step": traced.decode_step}
    files = {}
    for name, program in programs.items():
        torch.export.save(program, buffer := io.BytesIO())
        files[f"{name}.pt2"] = buffer.getvalue()
    return RuntimeGraphs(
        entry=ProgramEntry(encode="encode.pt2", decode_step="decode_step.pt2"),
        files=files,
        work=count_program_work(programs, traced.state, traced.bounds),
    )


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Runtime(name="program", package="torch", graphs="programs of torch.export", entry=ProgramEntry)
    register_runtime(row)
    # Taken out again after the test.
    monkeypatch.setitem(RUNTIMES, "program", RUNTIMES.pop("program"))
    exporter = Exporter(task="saving the programs", export=_export, versions=dict)
    # Converting for the others as well takes most of a minute and shows no more.
    monkeypatch.setattr(pipeline, "EXPORTERS", {"program": exporter})


def test_both_halves_have_the_same_runtimes() -> None:
    assert list(RUNTIMES) == list(exporters.EXPORTERS) == ["onnx", "executorch"]
    assert all(name == row.name for name, row in RUNTIMES.items())


@pytest.mark.parametrize("name", ["onnx", "torch", "files", "merged"])
def test_a_name_that_is_taken(name: str) -> None:
    with pytest.raises(ConfigError, match=f"runtime {name}: expected a new name, found one that is taken"):
        register_runtime(Runtime(name=name, package="torch", graphs="graphs", entry=ProgramEntry))


def test_every_key_of_a_manifest_is_taken() -> None:
    for name in Manifest.model_fields:
        with pytest.raises(ConfigError, match=f"runtime {name}: expected a new name, found one that is taken"):
            register_runtime(Runtime(name=name, package="torch", graphs="graphs", entry=ProgramEntry))


@pytest.mark.usefixtures("registered")
def test_a_runtime_is_exported_proven_opened_counted_and_run(tmp_path: Path) -> None:
    model, path = build_own_model(), tmp_path / "own.zip"
    export_bundle(path, model=model, card=ModelCard(name="own", tokenizer_json=TOKENIZER), bounds=BOUNDS)
    bundle = open_bundle(path)
    assert bundle.manifest.parity["program"]["agreement"] == 1.0
    assert list(read_graphs(bundle).columns) == ["torch", "program"]
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["program"] == {"encode": "encode.pt2", "decode_step": "decode_step.pt2"}
    assert (manifest["onnx"], manifest["executorch"]) == (None, None)

    random = np.random.default_rng(1)
    rows = [random.integers(3, VOCAB_SIZE, length).tolist() for length in range(1, 24)]
    engine = create_engine(bundle, runtime="program", threads=1)
    options = SearchOptions(max_steps=20)
    found = [hypothesis.tokens for hypothesis in search(engine, rows, options)]
    assert found == [hypothesis.tokens for hypothesis in search(TorchStepModel(model), rows, options)]


@pytest.mark.usefixtures("registered")
def test_an_entry_that_is_not_what_the_runtime_expects(tmp_path: Path) -> None:
    path = tmp_path / "own.zip"
    export_bundle(path, model=build_own_model(), card=ModelCard(name="own", tokenizer_json=TOKENIZER), bounds=BOUNDS)
    bundle = open_bundle(path)
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    other = ProgramEntry.model_construct(encode="encode.pt2", decode_step=3)
    manifest = bundle.manifest.model_copy(update={"runtimes": {"program": other}})
    with pytest.warns(UserWarning, match="serialized value"):
        write_archive(path, manifest=manifest, files=files)
    with pytest.raises(BundleError, match=r"manifest.json: .* program.decode_step: Input should be a valid string"):
        open_bundle(path)
