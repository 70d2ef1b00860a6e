"""Valid files of every kind, small and the same on every machine."""

import json
import zipfile
from importlib import resources
from typing import Any

import numpy as np

from lite_nlp.artifacts.bundles import decode_container
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    GridTensor,
    encode_fp16,
    encode_fp32,
    encode_grid,
    encode_grid_rans,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    quantize_vector,
)
from lite_nlp.config.preset import dump_config, load_config
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.export.bundle_writer import describe_files
from lite_nlp.export.matrices import Form, Rounding, array_digest
from lite_nlp.export.packing import Packing, pack_members, round_tensors
from lite_nlp.export.runtime.member_maker import integer_bytes, scale_bytes, sinusoid_table
from lite_nlp.export.runtime.scaled import Scaling
from tests.fuzz.bundles import MANIFEST, zip_members

__all__ = ["make_seeds"]

_TEXT = (
    "a few words, and a few more words",
    "Ein paar Wörter und ein paar mehr",
    "in the words of a few",
    "mehr Wörter",
)


def make_seeds() -> dict[str, list[bytes]]:
    """The seeds of each kind."""
    tokenizers = [
        Tokenizer.train(_TEXT, vocab_size=size, lowercase=lowercase, normalization=normalization).to_json()
        for size, lowercase, normalization in ((275, False, "nfkc"), (270, True, "none"))
    ]
    plain = _members(tokenizers[0])
    shipped = _shipped_manifest()
    full, compact = _manifest(shipped, plain, plain["tokenizer.json"]), _compact_bundle(shipped, plain)
    bundle = zip_members([(MANIFEST, json.dumps(full, indent=1).encode()), *plain.items()])
    manifests = [json.dumps(document).encode() for document in (full, json.loads(compact[0][1]))]
    return {
        "container": [*_containers(), dict(compact)["weights.lnlp"]],
        "bundle": [bundle, zip_members(compact)],
        "manifest": manifests,
        "tokenizer": tokenizers,
        "json": [_json(), manifests[1]],
        "config": [_config(name).encode() for name in ("multi30k-transformer", "r2d2-lstm-nli-5", "t2r-75-lm")],
    }


def _containers() -> list[bytes]:
    rng = np.random.default_rng(7)

    def clusters(shape: tuple[int, ...], size: int) -> ClusteredTensor:
        skewed = np.minimum(rng.geometric(0.2, size=shape) - 1, size - 1).astype(np.uint16)
        return ClusteredTensor(rng.normal(size=size).astype(np.float16).astype(np.float32), skewed)

    def levels(shape: tuple[int, int], spread: float) -> GridTensor:
        scales = np.exp2(rng.normal(size=(shape[0], 1)))
        exact = np.rint(spread * scales * rng.standard_t(2.0, size=shape))
        rows, columns = rng.integers(-5, 6, size=shape[0]), rng.integers(-3, 4, size=shape[1])
        return GridTensor(exact.astype(np.int32), 0.011, rows.astype(np.int8), columns.astype(np.int8))

    normal = rng.normal(size=(5, 7)).astype(np.float32)
    tensors = {
        "raw": encode_fp32(normal),
        "half": encode_fp16(normal[0]),
        "counter": encode_int64(np.array([3, -(1 << 63)])),
        "scalar": encode_fp32(np.array(1.5)),
        "empty": encode_fp32(np.zeros((0, 3))),
        "pruned": encode_pruned(np.where(normal > 0.5, normal, 0.0)),
        "indexed": encode_kmeans(clusters((11, 3), 6)),
        "wide": encode_kmeans(clusters((9,), 256)),
        **encode_kmeans_rans({"coded": clusters((50, 90), 30), "short": clusters((3,), 2), "one": clusters((6,), 1)}),
        **encode_grid_rans({"levels": levels((40, 120), 2.0), "bias": quantize_vector(normal[1] + 9.0, 5)}),
        "fixed": encode_grid(levels((3, 4), 1.5)),
    }
    tokenizer = Tokenizer.train(_TEXT, vocab_size=270).to_json()
    files = {"config.toml": b'name = "small"\n', "notes.txt": b"a few words " * 9, "tokenizer.json": tokenizer}
    return [
        container_bytes(
            tensors=tensors, files=files, metadata={"kind": "model", "n": [1, 2.5, None]}, aliases={"t": "raw"}
        ),
        container_bytes(tensors=encode_kmeans_rans({"w": clusters((5000,), 300)}), files={}, metadata={}),
    ]


def _members(tokenizer: bytes) -> dict[str, bytes]:
    """Members of a plain bundle; no reader of bundles looks into the graphs."""
    rng = np.random.default_rng(8)
    weights = rng.normal(size=(20, 12)).astype("<f4")
    table = sinusoid_table(rows=9, columns=12).astype("<f4").tobytes()
    return {
        "config.toml": _config("multi30k-transformer").encode(),
        "tokenizer.json": tokenizer,
        "encode.onnx": b"onnx" + rng.bytes(60),
        "decode_step.onnx": b"onnx" + bytes(50),
        "greedy.onnx": b"onnx" + bytes(40),
        "beam.onnx": b"onnx" + bytes(45),
        "weights.bin": weights.tobytes() + bytes(16) + table,
        "model.pte": b"ET12" + weights.T.tobytes() + table + rng.bytes(9),
    }


def _compact_bundle(shipped: dict[str, Any], plain: dict[str, bytes]) -> list[tuple[str, bytes]]:
    weights = np.frombuffer(plain["weights.bin"][:960], "<f4").reshape(20, 12)
    rounded = {name: np.random.default_rng(9).normal(size=(64, 32)).astype(np.float32) for name in ("eight", "four")}
    rounded["four"] *= 3
    forms: dict[bytes, Form] = {array_digest(rounded["eight"]): "int8", array_digest(rounded["four"]): "int4"}
    rounding = Rounding(precision="mixed", forms=forms)
    scaling = Scaling(rows=np.arange(-10, 10, dtype=np.int8), columns=np.arange(12, dtype=np.int8))
    integers = b"".join(
        integer_bytes(each, (0, 64), transposed=False).tobytes() + scale_bytes(each, (0, 64), bf16=False).tobytes()
        for each in round_tensors(rounded, rounding).values()
    )
    plain = {**plain, "model.pte": plain["model.pte"] + integers + scaling.apply(weights).tobytes()}
    container = container_bytes(
        tensors={
            "weight": encode_fp32(weights),
            "unused": encode_int64(np.arange(3)),
            **{name: encode_fp32(tensor) for name, tensor in rounded.items()},
        },
        files={"tokenizer.json": plain["tokenizer.json"]},
        metadata={},
    )
    packing = Packing(container, decode_container, {"weight": scaling})
    files, packed = pack_members(plain, ["tokenizer.json", "weights.bin", "model.pte"], packing, rounding)
    manifest = {**_manifest(shipped, files, plain["tokenizer.json"]), "packed": packed.model_dump(mode="json")}
    return [(MANIFEST, json.dumps(manifest, indent=1).encode()), *files.items()]


def _shipped_manifest() -> dict[str, Any]:
    """The manifest of the shipped model, with all that an exporter writes, and a shorter state."""
    with (
        (resources.files("lite_nlp") / "assets" / "tatoeba-en-de.zip").open("rb") as file,
        zipfile.ZipFile(file) as archive,
    ):
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
    del manifest["packed"]
    manifest["state"] = manifest["state"][:7]
    return manifest


def _manifest(shipped: dict[str, Any], files: dict[str, bytes], tokenizer: bytes) -> dict[str, Any]:
    types = len(json.loads(tokenizer)["model"]["vocab"])
    vocabulary = {**shipped["vocabulary"], "src_size": types, "tgt_size": types}
    described = {name: entry.model_dump() for name, entry in describe_files(files).items()}
    return {**shipped, "vocabulary": vocabulary, "files": described}


def _config(preset: str) -> str:
    """A config in full, as a model has it."""
    return dump_config(load_config(preset))


def _json() -> bytes:
    document = {"a": [1, -2.5e-3, True, None, {"b": "é\n\\ 👍", "": []}], "c": {"d": -(1 << 63), "e": [[[]]]}, "f": 0.1}
    return json.dumps(document).encode()
