"""``lite-nlp export`` of a model whose graphs are there: what is written, kept and refused."""

import json
import shutil
import zipfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest

import lite_nlp as lite_nlp_package
from lite_nlp.artifacts.bundle_export import write_model_bundle
from lite_nlp.artifacts.bundles import decode_container, open_any_bundle
from lite_nlp.artifacts.models import load_model
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.limits import Limits
from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import OverBudgetError, UsageError
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import pipeline
from lite_nlp.export.exporter import RuntimeGraphs
from lite_nlp.export.exporters import EXPORTERS
from lite_nlp.export.runtime import open_bundle
from lite_nlp.export.runtime.recipes import TensorPart
from tests.integration.compact_bundle import recipes_of
from tests.integration.conftest import LINES, MAX_SOURCE, SENTENCES, TORCH, LiteNlp, run_process

#: Of a model, by runtime.
Graphs: TypeAlias = dict[str, RuntimeGraphs]


class _Reversed(TorchStepModel):
    """A reference with its vocabulary turned round."""

    def step(self, tokens: Any, state: Any) -> Any:
        logits, state = super().step(tokens, state)
        return logits[:, ::-1].copy(), state


@pytest.fixture
def graphs(exported: tuple[Path, str, str], monkeypatch: pytest.MonkeyPatch) -> Graphs:
    """Those of the bundle made before, which exports make instead of converting: that takes most of a minute."""
    bundle = open_bundle(exported[0])
    manifest = bundle.manifest
    traced = SimpleNamespace(state=manifest.state, bounds=manifest.bounds, tgt_vocab_size=manifest.vocabulary.tgt_size)
    monkeypatch.setattr(pipeline, "trace_model", lambda model, bounds: traced)
    work = {name: GraphWork.from_json(content) for name, content in manifest.graphs.items()}
    graphs = {
        runtime: RuntimeGraphs(
            entry=entry, files={name: bundle.read(name) for name in entry.members}, work=work[runtime]
        )
        for runtime, entry in manifest.runtimes.items()
    }
    for runtime, exporter in list(EXPORTERS.items()):
        remade = replace(exporter, export=lambda *_, runtime=runtime, compact: graphs[runtime])
        monkeypatch.setitem(EXPORTERS, runtime, remade)
    monkeypatch.setattr(pipeline, "count_merged_work", lambda traced: work["merged"])
    return graphs


def test_an_export_that_says_other_things_is_not_put_in_place(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words: list[str | Path] = ["export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--out"]
    assert lite_nlp(*words, tmp_path / "right.zip").code == 0
    assert (tmp_path / "right.zip").read_bytes() == exported[0].read_bytes()
    # The size of the finished bundle, which the command holds against the limit, keeps an older one in place.
    too_large = lite_nlp(*words, tmp_path / "right.zip", "--force", "--max-size", "10KB")
    assert (too_large.code, (tmp_path / "right.zip").read_bytes()) == (3, exported[0].read_bytes())

    # A program that leaves the decoder's work out.
    right = graphs["executorch"]
    graphs["executorch"] = replace(right, work=replace(right.work, decode_step={}))
    done = lite_nlp(*words, tmp_path / "less.zip")
    assert done.code == 1
    assert (
        "expected graphs that do the model's work, found differences: executorch: decode_step: matmul: -"
        in done.message
    )
    graphs["executorch"] = right

    monkeypatch.setattr("lite_nlp.decoding.torch_model.TorchStepModel", _Reversed)
    done = lite_nlp(*words, tmp_path / "wrong.zip")
    assert done.code == 1
    assert "onnx: expected the model's own token ids for all 50 sentences" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["right.zip"]


def test_a_compact_bundle_is_the_plain_one_in_fewer_bytes(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    path = tmp_path / "compact.zip"
    words: list[str | Path] = ["export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--compact", "--out", path]
    done = lite_nlp.json(*words)
    plain, compact = open_bundle(exported[0]), open_any_bundle(path)
    members = sorted(plain.manifest.files)
    assert {name: compact.read(name) for name in members} == {name: plain.read(name) for name in members}
    assert {entry["name"]: entry["size_bytes"] for entry in done["made"]} == {
        name: plain.manifest.files[name].size_bytes for name in members if name not in ("config.toml", "metrics.json")
    }
    assert done["parity"] == compact.manifest.parity == plain.manifest.parity
    assert done["size_bytes"] == path.stat().st_size < 0.6 * exported[0].stat().st_size

    # Every tensor that is worth a part is found in the program.
    assert compact.manifest.packed is not None
    tensors = decode_container(compact.read("weights.lnlp")).tensors
    parts = recipes_of(compact).parts["model.pte"]
    found = {part.tensor for part in parts if isinstance(part, TensorPart)}
    assert found == {name for name, tensor in tensors.items() if tensor.nbytes >= 128}

    # A limit between both sizes lets the compact bundle through and not the plain one.
    limit = str((path.stat().st_size + exported[0].stat().st_size) // 2)
    assert lite_nlp(*words, "--force", "--max-size", limit).code == 0
    words.remove("--compact")
    refused = lite_nlp(*words, "--force", "--max-size", limit)
    assert refused.code == 3
    assert "lite-nlp export --compact" in refused.err
    assert open_any_bundle(path).manifest == compact.manifest


def test_a_compact_bundle_translates_without_torch_and_is_a_model_to_every_command(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    path = tmp_path / "compact.zip"
    assert lite_nlp("export", model_path, "--max-src-tokens", str(MAX_SOURCE), "--compact", "--out", path).code == 0
    source = tmp_path / "source.txt"
    source.write_text("\n".join(LINES) + "\n", encoding="utf-8")
    words = ["translate", str(path), "--input", str(source)]
    blocked = run_process(*words, missing=TORCH)
    assert blocked.returncode == 0, blocked.stderr
    assert blocked.stdout == lite_nlp("translate", exported[0], "--input", source).out
    assert lite_nlp("translate", path, "--input", source, "--runtime", "executorch").out == blocked.stdout

    counted = lite_nlp.json("budget", path)
    assert counted["size_bytes"] == path.stat().st_size
    assert counted["macs"] == lite_nlp.json("budget", exported[0])["macs"]
    assert lite_nlp("budget", path, "--check", "--max-size", "1KB").code == 3

    # Torch finds the weights in it, whatever it is then done with.
    with_torch = lite_nlp("translate", path, "--input", source, "--runtime", "torch", "--max-length", "20")
    directory = lite_nlp("translate", model_path, "--input", source, "--max-length", "20")
    assert (with_torch.code, with_torch.out) == (0, directory.out)
    assert load_model(path).metrics == load_model(model_path).metrics == {"languages": {"src": "en", "tgt": "de"}}
    words = ["export", str(path), "--max-src-tokens", str(MAX_SOURCE), "--out"]
    again, plain = tmp_path / "again" / path.name, tmp_path / "plain.zip"
    assert lite_nlp(*words, again, "--compact").code == lite_nlp(*words, plain).code == 0
    assert open_any_bundle(again).read("weights.lnlp") == open_any_bundle(path).read("weights.lnlp")
    assert open_bundle(plain).manifest.parity == open_bundle(exported[0]).manifest.parity

    with zipfile.ZipFile(path) as archive:
        stored = archive.read("weights.lnlp")
    content = path.read_bytes()
    path.write_bytes(content.replace(stored, stored[:-1] + bytes((stored[-1] ^ 1,))))
    damaged = lite_nlp("translate", path, "--text", "Hello.")
    assert damaged.code == 1
    assert "weights.lnlp: expected an intact member, found it altered or truncated" in damaged.message


def test_scores_of_metrics_json_are_in_the_manifest(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    scored = tmp_path / model_path.name
    shutil.copytree(model_path, scored)
    scores = {"test": {"bleu": 12.5, "sentences": 3}}
    (scored / "metrics.json").write_text(json.dumps({"scores": scores}), encoding="utf-8")
    words: list[str | Path] = ["export", scored, "--max-src-tokens", str(MAX_SOURCE), "--out"]
    assert lite_nlp(*words, tmp_path / "scored.zip").code == 0
    assert open_bundle(tmp_path / "scored.zip").manifest.scores == scores
    assert open_bundle(exported[0]).manifest.scores == {}


def test_scores_of_a_bundle_stay_with_it_when_it_is_exported_again(
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
) -> None:
    """A shipped bundle has its scores from its card; the copy of another release has them in its manifest alone."""
    scores = {"test": {"bleu": 12.5, "sentences": 3}}
    words: list[str | Path] = ["--max-src-tokens", str(MAX_SOURCE), "--compact", "--out"]
    assert lite_nlp("export", model_path, *words, tmp_path / "compact.zip").code == 0
    scored = tmp_path / "scored.zip"
    with zipfile.ZipFile(tmp_path / "compact.zip") as source, zipfile.ZipFile(scored, "w") as target:
        for member in source.infolist():
            content = source.read(member)
            if member.filename == "manifest.json":
                content = json.dumps({**json.loads(content), "scores": scores}).encode()
            target.writestr(member, content)
    assert lite_nlp("export", scored, *words, tmp_path / "again.zip").code == 0
    assert open_any_bundle(tmp_path / "again.zip").manifest.scores == scores


def test_a_model_that_is_no_bundle_is_exported_into_the_cache_once(
    exported: tuple[Path, str, str],
    graphs: Graphs,
    model_path: Path,
    tmp_path: Path,
    lite_nlp: LiteNlp,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path))
    # The graphs of the bundle made before take sources of no more tokens.
    write = partial(write_model_bundle, max_src_tokens=MAX_SOURCE)
    monkeypatch.setattr("lite_nlp.artifacts.cache.write_model_bundle", write)
    expected = lite_nlp("translate", exported[0], "--text", SENTENCES[0])
    for runtime in ("onnx", "executorch"):
        before = set(tmp_path.glob("bundles/*"))
        first = lite_nlp("translate", model_path, "--runtime", runtime, "--text", SENTENCES[0])
        assert (first.code, first.out) == (0, expected.out)
        assert "tracing the encoder" in first.err
        [bundle] = set(tmp_path.glob("bundles/*")) - before
        manifest = open_bundle(bundle).manifest
        assert (manifest.name, list(manifest.runtimes)) == (model_path.name, [runtime])

    graphs.clear()
    made = set(tmp_path.glob("bundles/*"))
    for runtime in ("onnx", "executorch"):
        again = lite_nlp("translate", model_path, "--runtime", runtime, "--text", SENTENCES[0])
        assert (again.code, again.out) == (0, first.out)
        assert "tracing" not in again.err
    assert set(tmp_path.glob("bundles/*")) == made


def test_a_loaded_model_is_exported_like_its_file(
    exported: tuple[Path, str, str], graphs: Graphs, model_path: Path, tmp_path: Path
) -> None:
    loaded, path = load_model(model_path), tmp_path / "loaded.zip"
    export_model = partial(lite_nlp_package.export_model, loaded, max_src_tokens=MAX_SOURCE)
    done = export_model(out=path)
    assert (done.path, done.size_bytes, done.made_bytes) == (path, path.stat().st_size, {})
    assert path.read_bytes() == exported[0].read_bytes()
    assert done.manifest.parity == open_bundle(exported[0]).manifest.parity

    compact = export_model(out=tmp_path / "compact.zip", compact=True)
    assert set(compact.made_bytes) == {*done.manifest.files} - {"config.toml", "metrics.json"}
    with pytest.raises(UsageError, match=r"expected a name that ends in \.zip, found model\.onnx"):
        export_model(out="model.onnx")
    gate = BudgetGate(limits=Limits(max_size_bytes=1_000))
    with pytest.raises(OverBudgetError, match="tiny-model"):
        export_model(out=tmp_path / "large.zip", gate=gate)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["compact.zip", "loaded.zip"]
