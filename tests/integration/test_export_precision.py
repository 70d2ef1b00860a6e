"""``lite-nlp export --precision``: bundles whose weights are integers, all of them or some."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.column_steps import move_column_steps
from lite_nlp.artifacts.models import load_model
from lite_nlp.artifacts.packing import packing_of
from lite_nlp.compress.lnlp.container import write_container
from lite_nlp.compress.lnlp.encodings import GridTensor, encode_fp32, encode_grid
from lite_nlp.compress.stages import model_tensors
from lite_nlp.export import pipeline
from lite_nlp.export.matrices import Rounding
from lite_nlp.export.packing import pack_members
from lite_nlp.export.runtime import open_bundle
from lite_nlp.export.runtime.member_maker import make_member
from lite_nlp.export.runtime.recipes import IntegersPart, ScalesPart, read_recipes
from lite_nlp.export.runtime.rounded import read_codes
from lite_nlp.export.runtime.scaled import read_scalings
from tests.integration.compact_bundle import recipes_of
from tests.integration.conftest import SENTENCES, TORCH, LiteNlp, run_process


@pytest.fixture(scope="module")
def grid_path(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model with every matrix on a grid with steps by row and column, as compression leaves it."""
    random, made, tensors = np.random.default_rng(3), model_tensors(load_model(model_path).model), {}
    for name, tensor in made.tensors.items():
        values = tensor.numpy()
        if values.ndim == 2:
            rows, columns = (random.integers(-3, 4, size).astype(np.int8) for size in values.shape)
            scaled = values / np.exp2((rows[:, None] + columns) / 2)
            step = float(np.abs(scaled).max() / 20)
            grid = GridTensor(np.rint(scaled / step).astype(np.int32), step, rows, columns)
            tensors[name] = encode_grid(grid)
        else:
            tensors[name] = encode_fp32(values)
    files = {name: (model_path / name).read_bytes() for name in ("config.toml", "tokenizer.json", "metrics.json")}
    path = tmp_path_factory.mktemp("grid") / "tiny.lnlp"
    write_container(path, tensors=tensors, files=files, metadata={}, aliases=made.aliases)
    return path


@pytest.fixture(scope="module")
def int8_bundle(grid_path: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], str]:
    """A bundle of integer weights, what the command said of it, and its stderr."""
    path = tmp_path_factory.mktemp("int8") / "tiny.zip"
    done = run_process("export", str(grid_path), "--precision", "int8", "--out", str(path), "--json", "--verbose")
    assert done.returncode == 0, done.stderr
    return path, json.loads(done.stdout), done.stderr


def test_integer_weights(int8_bundle: tuple[Path, dict[str, Any], str]) -> None:
    path, said, _ = int8_bundle
    manifest = open_bundle(path).manifest
    assert said["precision"] == manifest.precision == "int8"
    assert list(manifest.runtimes) == ["onnx", "executorch"]
    assert "com.microsoft::DynamicQuantizeMatMul" in manifest.runtimes["onnx"].operators
    assert all(0 <= manifest.parity[runtime]["agreement"] <= 1 for runtime in manifest.runtimes)
    assert said["quality"]["runtime"] in manifest.runtimes
    quality = said["quality"]
    assert quality["metric"] == "bleu"
    assert quality["lost"] == pytest.approx(quality["before"]["bleu"] - quality["after"]["bleu"], abs=0.01)
    assert quality["lost"] <= 0.3


def test_verbose_lists_what_xnnpack_does_not_take(int8_bundle: tuple[Path, dict[str, Any], str]) -> None:
    path, _, listed = int8_bundle
    calls = open_bundle(path).manifest.runtimes["executorch"].calls
    assert list(calls) == ["encode", "decode_step", "decode_in_place", "decode_rows_in_place"]
    rows = {cells[0].strip(): cells[1:] for line in listed.splitlines() if len(cells := line.split("│")[1:-1]) == 5}
    for kernel in {kernel for called in calls.values() for kernel in called.kernels}:
        counts = [called.kernels.get(kernel, 0) for called in calls.values()]
        assert [int(cell) for cell in rows[kernel]] == counts
    assert [int(cell) for cell in rows["all of them"]] == [sum(called.kernels.values()) for called in calls.values()]
    assert [int(cell) for cell in rows["calls of XNNPACK"]] == [called.delegated for called in calls.values()]
    assert all(called.delegated > 0 for called in calls.values())


def test_integer_weights_run_without_torch(
    int8_bundle: tuple[Path, dict[str, Any], str], tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{line}\n" for line in SENTENCES[:3]), encoding="utf-8")
    done = run_process("translate", str(int8_bundle[0]), "--runtime", "onnx", "--input", str(source), missing=TORCH)
    assert (done.returncode, done.stdout.count("\n")) == (0, 3), done.stderr
    other = lite_nlp("translate", int8_bundle[0], "--runtime", "executorch", "--input", source)
    assert (other.code, other.out.count("\n")) == (0, 3), other.err


def test_a_compact_bundle_of_integers_is_the_plain_one_in_fewer_bytes(
    int8_bundle: tuple[Path, dict[str, Any], str], grid_path: Path
) -> None:
    bundle, loaded = open_bundle(int8_bundle[0]), load_model(grid_path)
    scalings = move_column_steps(loaded.model, loaded.stored).scalings
    packing = replace(packing_of(None, loaded), scalings=scalings)
    files = {name: bundle.read(name) for name in bundle.manifest.files}
    names = [name for name in files if name not in pipeline.STORED]
    made, packed = pack_members(files, names, packing, Rounding(precision="int8"))
    assert packed.codes is not None
    assert packed.exponents is not None
    recipes = read_recipes(packed, made[packed.recipes.file], source="recipes")
    parts, matrices = recipes.parts, {entry.tensor for entry in recipes.rounded}
    assert "src_embedding.weight" in matrices
    for name in ("weights.bin", "model.pte"):
        assert {part.integers for part in parts[name] if isinstance(part, IntegersPart)} == matrices
        assert {part.scales for part in parts[name] if isinstance(part, ScalesPart)} == matrices
    # What is left is the table of positions, whose last bits differ, and what stays in fp32.
    residuals = {name: len(made[member.residual]) for name, member in packed.members.items()}
    assert residuals["weights.bin"] < 0.3 * len(files["weights.bin"])
    contents = packing.decode(packing.container)
    exponents = read_scalings(recipes.scaled, made[packed.exponents], contents.own_tensors, source="exponents")
    contents = contents.scaled_by(exponents)
    rounded = read_codes(recipes.rounded, made[packed.codes], contents.tensors, source="codes")
    contents = replace(contents, rounded=rounded)
    # The integers are the model's own.
    for name, weights in rounded.items():
        np.testing.assert_allclose(weights.restored(), contents.tensors[name], rtol=1e-6, err_msg=name)
    for name, member in packed.members.items():
        content = b"".join(map(bytes, make_member(member, parts[name], [made[member.residual]], contents, source=name)))
        assert content == files[name]


def test_mixed_weights_run_without_torch_and_say_what_they_are(
    model_path: Path, tmp_path: Path, lite_nlp: LiteNlp
) -> None:
    path = tmp_path / "tiny.zip"
    # Of random weights the scores are none.
    words = ["--precision", "mixed", "--max-loss", "100", "--compact"]
    done = lite_nlp("export", model_path, *words, "--out", path, "--json")
    assert done.code == 0, done.err
    said, bundle = json.loads(done.out), open_any_bundle(path)
    # Of so small matrices integers may be slower than fp32, and then none has them.
    rounded = {entry.tensor: entry.bits for entry in recipes_of(bundle).rounded}
    bits = {"int8": 8, "int4": 4}
    forms = {planned["weight"]: planned["form"] for planned in said["plan"]}
    assert rounded == {name: bits[form] for name, form in forms.items() if form in bits}
    assert said["precision"] == bundle.manifest.precision == "mixed"
    assert list(bundle.manifest.runtimes) == ["onnx", "executorch"]
    plan = json.loads(bundle.read("metrics.json"))["mixed_precision"]
    assert said["plan"] == plan
    assert "src_embedding.weight" in {planned["weight"] for planned in plan}
    assert all(planned["losses"]["fp32"] == 0 for planned in plan)
    translated = run_process("translate", str(path), "--runtime", "onnx", "--text", SENTENCES[0], missing=TORCH)
    assert translated.returncode == 0, translated.stderr
    other = lite_nlp("translate", path, "--runtime", "executorch", "--text", SENTENCES[0])
    assert other.code == 0, other.err
