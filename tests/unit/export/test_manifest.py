"""Whatever a manifest says, it is a manifest or an error of ours, short and soon."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.limits import (
    MADE_BYTES_ALWAYS,
    MADE_BYTES_PER_STORED,
    MAX_FILES,
    MAX_MANIFEST_BYTES,
    MAX_PACKED_MEMBERS,
    MAX_RANK,
    MAX_STATE_BYTES,
    MAX_STATE_TENSORS,
)
from lite_nlp.export.runtime.manifest import Manifest, parse_manifest
from tests.mutations import mutated

ENTRY = {"sha256": "0" * 64, "size_bytes": 1000}
WORK = {"encode": {"matmul": [[3, 1, 0]]}, "decode_step": {"matmul": [[5, 0, 1], [7, 0, 0]]}}


def tensor(name: str, *shape: Any, dtype: str = "float32", origin: str = "zeros") -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": ["batch", *shape], "origin": origin, "changes": origin == "zeros"}


MADE = {
    "size_bytes": 400,
    "sha256": "1" * 64,
    "residual": "weights.bin.residual",
}
DOCUMENT: dict[str, Any] = {
    "schema_version": 1,
    "name": "tiny",
    "versions": {"torch": "2.13.0", "opset": "20"},
    "precision": "fp32",
    "languages": {"src": "en", "tgt": "de"},
    "vocabulary": {"src_size": 300, "tgt_size": 280, "pad_id": 0, "bos_id": 1, "eos_id": 2},
    "bounds": {"source": 24, "capacity": 20, "executorch_batch": 4},
    "decoding": {
        "length_penalty": 1,
        "no_repeat_ngram": 0,
        "min_length": 0,
        "max_length": 0,
        "long_input": "split",
        "max_source_tokens": 20,
    },
    "state": [
        tensor("position", dtype="int64"),
        tensor("src_mask", "source", dtype="bool", origin="src_mask"),
        tensor("key", 4, "source", 2, origin="encode"),
        tensor("cache", 4, "capacity", 2),
    ],
    "onnx": {
        "encode": "encode.onnx",
        "decode_step": "step.onnx",
        "greedy": "greedy.onnx",
        "beam": "beam.onnx",
        "weights": "weights.bin",
        "new_prefix": "new.",
        "operators": [],
        "oldest_runtime": "1.18",
    },
    "executorch": {
        "program": "model.pte",
        "calls": {"decode_step": {"delegated": 3, "kernels": {"aten::add.out": 2}}},
    },
    "parity": {"onnx": {"sentences": 50, "agreement": 1.0}},
    "budget": {"params": {"total": 12}, "macs": {"executed": 34, "paper": 30}},
    "graphs": {"torch": WORK, "onnx": WORK},
    "scores": {"test": {"bleu": 39.5, "sentences": 100}},
    "files": dict.fromkeys(
        [
            "config.toml",
            "tokenizer.json",
            "encode.onnx",
            "step.onnx",
            "greedy.onnx",
            "beam.onnx",
            "model.pte",
            "w.lnlp",
            "weights.bin.residual",
            "recipes.zlib",
        ],
        ENTRY,
    ),
    "packed": {
        "container": "w.lnlp",
        "recipes": {"file": "recipes.zlib", "size_bytes": 300},
        "members": {"weights.bin": MADE},
    },
}


def parse(document: Any) -> Manifest:
    return parse_manifest(json.dumps(document).encode(), source="tiny.zip")


def attempt(document: Any) -> tuple[Manifest | None, str]:
    """The manifest, or the message of our error."""
    try:
        return parse(document), ""
    except BundleError as error:
        return None, str(error)


def refusal(change: Callable[[dict[str, Any]], object]) -> str:
    document = json.loads(json.dumps(DOCUMENT))
    change(document)
    with pytest.raises(BundleError) as caught:
        parse(document)
    return str(caught.value)


def test_the_document_itself_is_a_manifest() -> None:
    manifest = parse(DOCUMENT)
    assert {**DOCUMENT, **json.loads(manifest.to_json())} == json.loads(manifest.to_json())
    assert manifest.layout.encoded == ["key"]


@settings(deadline=None, max_examples=300)
@given(mutated(DOCUMENT))
def test_a_changed_document_is_a_manifest_or_our_error(document: Any) -> None:
    manifest, message = attempt(document)
    assert len(message) < 2000
    assert message.count("\n") < 20
    if manifest is None:
        assert message.startswith("tiny.zip: manifest.json: expected ")
        return
    # Whatever is accepted can be written, read again, and has state that fits the memory.
    assert parse_manifest(manifest.to_json(), source="again") == manifest
    assert sum(tensor.row_bytes(manifest.bounds) for tensor in manifest.state) <= MAX_STATE_BYTES


@given(st.binary(max_size=200))
def test_bytes_that_are_no_document(content: bytes) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json: expected"):
        parse_manifest(content, source="tiny.zip")


def test_a_manifest_says_its_schema() -> None:
    with pytest.raises(
        BundleError, match=r"manifest\.json: expected a bundle's manifest with its schema_version, found none"
    ):
        parse_manifest(b'{"name": "tiny"}', source="tiny.zip")


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b'{"schema_version": ' + b"9" * 10000 + b"}",
        b'{"schema_version": NaN}',
        b'{"schema_version": 1e999}',
        b"\xff\xfe",
        b'{"name": "\\ud800"}',
        b'{"state": [' + b"{}," * 499_999 + b"{}]}",
        b" " * (MAX_MANIFEST_BYTES + 1),
    ],
)
def test_documents_that_break_parsers(content: bytes) -> None:
    with pytest.raises(BundleError, match=r"^tiny\.zip: manifest\.json: expected") as caught:
        parse_manifest(content, source="tiny.zip")
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda it: it["state"].extend(tensor(f"t{number}") for number in range(MAX_STATE_TENSORS)),
            f"state: Value error, expected at most {MAX_STATE_TENSORS} entries, found {MAX_STATE_TENSORS + 4}",
        ),
        (
            lambda it: it["state"][2]["shape"].extend([1] * MAX_RANK),
            "state.2.shape: Value error, expected at most 8 entr",
        ),
        (
            lambda it: it["state"][2]["shape"].reverse(),
            "state.2: Value error, shape: expected the batch as first dimens",
        ),
        (lambda it: it["state"][3].update(shape=["batch", "batch"]), "expected the batch as first dimension alone"),
        (lambda it: it["state"][1].update(dtype="float32"), "expected the mask as a bool tensor"),
        (
            lambda it: it["state"].append(it["state"][0]),
            "state: Value error, expected names that differ from each other",
        ),
        (lambda it: it["state"][3].update(name="tokens"), "state: Value error, expected names that differ"),
        (lambda it: it["state"][3].update(name="n" * 257), "state.3.name: String should have at most 256 characters"),
        (lambda it: it["state"][3]["shape"].append(-1), "state.3.shape"),
        (
            lambda it: it["bounds"].update(capacity=10**9),
            "bounds.capacity: Input should be less than or equal to 65536",
        ),
        (lambda it: it["bounds"].update(executorch_batch=10**6), "bounds.executorch_batch"),
        (
            lambda it: it["executorch"]["calls"]["decode_step"].update(delegated=-1),
            "executorch.calls.decode_step.delegated: Input should be greater than or equal to 0",
        ),
        (
            lambda it: (it["bounds"].update(capacity=65536), it["state"][3].update(shape=["batch", "capacity", 1025])),
            f"state: expected at most {MAX_STATE_BYTES} bytes for a row at the largest sizes",
        ),
        (lambda it: it["vocabulary"].update(tgt_size=1 << 40), "vocabulary.tgt_size"),
        (
            lambda it: it["files"].update({f"f{number}": ENTRY for number in range(MAX_FILES)}),
            "files: .*at most 64 entries",
        ),
        (lambda it: it["files"].update({"a/b": ENTRY}), "expected plain member names"),
        (lambda it: it["files"].update({"manifest.json": ENTRY}), "expected plain member names"),
        (
            lambda it: it["packed"]["members"].update({f"m{number}": MADE for number in range(MAX_PACKED_MEMBERS)}),
            "packed.members: Value error, expected at most 16 entries, found 17",
        ),
        (
            lambda it: it["packed"]["recipes"].update(size_bytes=MAX_MANIFEST_BYTES + 1),
            "packed.recipes.size_bytes: Input should be less than or equal to 4000000",
        ),
        (lambda it: it["packed"]["recipes"].update(file="other"), "expected an entry for other, found none"),
        (lambda it: it["packed"].update(codes="other"), "expected an entry for other, found none"),
        (
            lambda it: it["packed"]["members"]["weights.bin"].update(
                size_bytes=MADE_BYTES_ALWAYS + 10000 * MADE_BYTES_PER_STORED + 1
            ),
            f"expected at most {MADE_BYTES_ALWAYS + 10000 * MADE_BYTES_PER_STORED} bytes in all, made of 10000",
        ),
        (
            lambda it: it["files"]["tokenizer.json"].update(size_bytes=(4 << 20) + 9001 + (1 << 30)),
            "tokenizer.json: expected at most 67108864 bytes, found",
        ),
        (
            lambda it: (
                it["files"].pop("tokenizer.json"),
                it["packed"]["members"].update({"tokenizer.json": {**MADE, "size_bytes": (4 << 20) + 9001}}),
            ),
            f"tokenizer.json: expected at most {(4 << 20) + 9000} bytes, found {(4 << 20) + 9001}",
        ),
        (
            lambda it: it["files"]["config.toml"].update(size_bytes=(4 << 20) + 1),
            "config.toml: expected at most 4194304",
        ),
        (lambda it: it["packed"].update(container="config.toml"), "expected an entry for config.toml"),
        (
            lambda it: it["budget"]["macs"].update(paper=10**30),
            "expected JSON, found an error: an integer beyond 64 bits",
        ),
        (
            lambda it: it["graphs"]["onnx"]["encode"].update(matmul=[[1, 1, 0]] * 65),
            "graphs: Value error, onnx: polynomial: expected at most 64 terms, found 65",
        ),
        (lambda it: it.update(scores={"test": 3}), "scores.test: Input should be a valid dictionary"),
        (lambda it: it["decoding"].update(length_penalty=-1.0), "decoding.length_penalty"),
    ],
)
def test_limits_and_contradictions(change: Callable[[dict[str, Any]], object], message: str) -> None:
    assert re.search(message, refusal(change)), refusal(change)


@pytest.mark.parametrize("value", ["many", None, True, -1, 1.5, [], {}])
def test_a_figure_that_is_no_count_is_not_recorded(value: Any) -> None:
    assert parse(DOCUMENT).recorded_count("params", "total") == 12
    for budget in ({"params": {"total": value}}, {"params": value}, {}):
        assert parse({**DOCUMENT, "budget": budget}).recorded_count("params", "total") == 0


def test_of_many_problems_the_first_are_named() -> None:
    message = refusal(lambda it: it.update(versions={str(number): number for number in range(64)}))
    assert "versions.0: Input should be a valid string; versions.1: " in message
    assert message.endswith("and 54 more")


def test_hostile_manifests_cost_little_memory() -> None:
    """Each in a process that may have 200 MB more than it has when everything is imported."""
    code = """
import json, resource, sys
from lite_nlp.core.errors import BundleError
from lite_nlp.export.runtime.manifest import parse_manifest
documents = [
    b'{"state": [' + b'{},' * 99_000 + b'{}]}',
    b'{"packed": {"container": "c", "members": {' + b','.join(b'"%d":{}' % number for number in range(45_000)) + b'}}}',
    b'{"scores": {"a": {"b": [' + b'[],' * 99_000 + b'[]]}}}',
    b'{"files": {' + b','.join(b'"%d":{}' % number for number in range(45_000)) + b'}}',
    b'{"' + b'k' * 3_900_000 + b'": 1}',
    b'[' * 3_999_999,
]
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + 200_000_000,) * 2)
for content in documents:
    try:
        parse_manifest(content, source="x")
    except BundleError as error:
        print(len(str(error)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [int(size) < 2000 for size in done.stdout.split()] == [True] * 6
