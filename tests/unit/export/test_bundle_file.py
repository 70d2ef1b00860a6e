import json
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.core.errors import BundleError, OutputError, RuntimeUnavailableError
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.runtime.bundle import Bundle, open_bundle
from lite_nlp.export.runtime.engine import create_engine
from lite_nlp.export.runtime.layout import Bounds, StateTensor
from lite_nlp.export.runtime.manifest import (
    CONFIG_FILE,
    MANIFEST_FILE,
    TOKENIZER_FILE,
    Manifest,
    Vocabulary,
)

TOKENIZER = json.dumps({"model": {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}}}).encode()
FILES = {TOKENIZER_FILE: TOKENIZER, CONFIG_FILE: b"name = 'tiny'\n", "extra.bin": bytes(range(256)) * 20}


def _manifest(files: dict[str, bytes] | None = None, **changes: Any) -> Manifest:
    values: dict[str, Any] = {
        "name": "tiny",
        "versions": {"torch": "2.13.0"},
        "precision": "fp32",
        "vocabulary": Vocabulary(src_size=4, tgt_size=4),
        "bounds": Bounds(source=8, capacity=8, executorch_batch=2),
        "state": (
            StateTensor(name="position", dtype="int64", shape=("batch",), origin="zeros", changes=True),
            StateTensor(name="key", dtype="float32", shape=("batch", 2, "source"), origin="encode", changes=False),
        ),
        "files": describe_files(FILES if files is None else files),
    }
    return Manifest(**{**values, **changes})


@pytest.fixture
def bundle_path(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.zip"
    write_bundle(path, manifest=_manifest(), files=FILES)
    return path


def _rewrite(path: Path, change: Callable[[dict[str, bytes]], None]) -> None:
    """Write the archive again with other members."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def _edit_manifest(path: Path, **changes: Any) -> None:
    def edit(members: dict[str, bytes]) -> None:
        members[MANIFEST_FILE] = json.dumps({**json.loads(members[MANIFEST_FILE]), **changes}).encode()

    _rewrite(path, edit)


def test_what_is_written_is_read(bundle_path: Path) -> None:
    bundle = open_bundle(bundle_path)
    assert bundle.manifest == _manifest()
    assert bundle.manifest.layout.encoded == ["key"]
    assert bundle.manifest.layout.changing == ["position"]
    assert bundle.tokenizer_json == TOKENIZER
    assert {name: bundle.read(name) for name in FILES} == FILES


def test_the_same_content_gives_the_same_bytes(bundle_path: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    write_bundle(again, manifest=_manifest(), files=FILES)
    assert again.read_bytes() == bundle_path.read_bytes()


def test_members_lie_in_the_file_as_they_are(bundle_path: Path) -> None:
    assert FILES["extra.bin"] in bundle_path.read_bytes()


def test_an_existing_file_is_kept_unless_forced(bundle_path: Path) -> None:
    bundle_path.write_bytes(b"mine")
    with pytest.raises(OutputError, match="output exists already"):
        write_bundle(bundle_path, manifest=_manifest(), files=FILES)
    assert bundle_path.read_bytes() == b"mine"
    write_bundle(bundle_path, manifest=_manifest(), files=FILES, force=True)
    assert isinstance(open_bundle(bundle_path), Bundle)


def test_a_write_that_fails_midway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full_disk)
    with pytest.raises(OutputError, match="No space left on device"):
        write_bundle(tmp_path / "tiny.zip", manifest=_manifest(), files=FILES)
    assert list(tmp_path.iterdir()) == []


def test_a_manifest_of_other_files(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"describes its files, found other entries for \['extra.bin'\]"):
        write_bundle(tmp_path / "tiny.zip", manifest=_manifest(), files={**FILES, "extra.bin": b"other"})


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="found no file"):
        open_bundle(tmp_path / "missing.zip")


def test_no_bundle(tmp_path: Path) -> None:
    path = tmp_path / "text.zip"
    path.write_text("hello")
    with pytest.raises(BundleError, match="found something else or a truncated one"):
        open_bundle(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(BundleError, match=r"expected a bundle with manifest.json, found a \.zip file without"):
        open_bundle(path)


def test_every_truncation_is_refused(bundle_path: Path) -> None:
    content = bundle_path.read_bytes()
    for length in range(0, len(content), 97):
        bundle_path.write_bytes(content[:length])
        with pytest.raises(BundleError, match="truncated"):
            open_bundle(bundle_path)


def test_every_altered_byte_of_a_member_is_refused(bundle_path: Path) -> None:
    content = bytearray(bundle_path.read_bytes())
    start = content.index(FILES["extra.bin"])
    for place in range(start, start + len(FILES["extra.bin"]), 501):
        content[place] ^= 1
        bundle_path.write_bytes(content)
        with pytest.raises(BundleError, match=r"extra.bin: expected an intact member, found it altered"):
            open_bundle(bundle_path)
        content[place] ^= 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: members.pop("extra.bin"), "members do not match the manifest"),
        (lambda members: members.update({"more.bin": b""}), "members do not match the manifest"),
        (lambda members: members.update({"extra.bin": b"short"}), "extra.bin: expected 5120 bytes, found 5"),
        (lambda members: members.update({"extra.bin": bytes(5120)}), "extra.bin: expected SHA-256 .* has been altered"),
        (lambda members: members.update({MANIFEST_FILE: b"{"}), "manifest.json: expected JSON"),
        (lambda members: members.update({MANIFEST_FILE: b"[]"}), "manifest.json: expected a bundle's manifest"),
        (lambda members: members.update({"../evil": b""}), "expected plain member names, found '../evil'"),
        (lambda members: members.update({"/etc/evil": b""}), "expected plain member names"),
        (lambda members: members.update({"c:evil": b""}), "expected plain member names"),
    ],
)
def test_members_that_do_not_belong(
    bundle_path: Path, change: Callable[[dict[str, bytes]], None], message: str
) -> None:
    _rewrite(bundle_path, change)
    with pytest.raises(BundleError, match=message):
        open_bundle(bundle_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "expected schema_version 1, found 2: the bundle was made by a newer lite-nlp"),
        ({"schema_version": "1"}, "schema_version"),
        ({"state": [{"name": "x"}]}, "state.0.dtype"),
        ({"bounds": {"source": 0, "capacity": 1, "executorch_batch": 1}}, "bounds.source"),
        ({"executorch": {"program": "model.pte"}}, "files: expected an entry for model.pte, found none"),
        (
            {"vocabulary": {"src_size": 9, "tgt_size": 9}},
            "does not fit the model: expected 9 source and 9 target types",
        ),
        ({"vocabulary": {"src_size": 4, "tgt_size": 4, "eos_id": 3}}, "does not fit the model: expected special ids"),
    ],
)
def test_a_manifest_that_is_wrong(bundle_path: Path, changes: dict[str, Any], message: str) -> None:
    _edit_manifest(bundle_path, **changes)
    with pytest.raises(BundleError, match=message):
        open_bundle(bundle_path)


def test_a_manifest_that_says_more_is_read(bundle_path: Path) -> None:
    _edit_manifest(bundle_path, colour="blue")
    assert open_bundle(bundle_path).manifest == _manifest()


def test_another_tokenizer_with_a_matching_hash(tmp_path: Path) -> None:
    files = {**FILES, TOKENIZER_FILE: b'{"model": {"vocab": {"<pad>": 0}}}'}
    write_bundle(tmp_path / "tiny.zip", manifest=_manifest(files), files=files)
    with pytest.raises(BundleError, match="does not fit the model: expected 4 source and 4 target types, found 1"):
        open_bundle(tmp_path / "tiny.zip")
    files[TOKENIZER_FILE] = b"[]"
    write_bundle(tmp_path / "damaged.zip", manifest=_manifest(files), files=files)
    with pytest.raises(BundleError, match="expected a tokenizer with a vocabulary, found a damaged one"):
        open_bundle(tmp_path / "damaged.zip")


def test_a_compressed_member_is_refused_before_it_is_unpacked(bundle_path: Path) -> None:
    with zipfile.ZipFile(bundle_path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.bin", bytes(1_000_000))
    with pytest.raises(BundleError, match=r"bomb.bin: expected a stored member"):
        open_bundle(bundle_path)


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")
def test_a_member_twice(bundle_path: Path) -> None:
    with zipfile.ZipFile(bundle_path, "a") as archive:
        archive.writestr("extra.bin", b"another")
    with pytest.raises(BundleError, match="expected each member once"):
        open_bundle(bundle_path)


def test_sizes_that_only_the_directory_declares(bundle_path: Path) -> None:
    content = bytearray(bundle_path.read_bytes())
    # Central directory entry of the last member: signature at 0, compressed size at 20, size at 24.
    entry = content.rindex(b"PK\x01\x02")
    content[entry + 20 : entry + 28] = struct.pack("<II", 0xFFFFFFF0, 0xFFFFFFF0)
    bundle_path.write_bytes(content)
    with pytest.raises(BundleError, match=r"expected the directory to repeat the header of 'extra\.bin'"):
        open_bundle(bundle_path)


def test_another_working_directory_after_opening(bundle_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle_path.parent)
    bundle = open_bundle(bundle_path.name)
    monkeypatch.chdir("/")
    assert bundle.read("config.toml") == open_bundle(bundle_path).read("config.toml")


def test_a_member_altered_after_opening(bundle_path: Path) -> None:
    bundle = open_bundle(bundle_path)
    _rewrite(bundle_path, lambda members: members.update({"extra.bin": bytes(5120)}))
    with pytest.raises(BundleError, match="has been altered"):
        bundle.read("extra.bin")
    with pytest.raises(BundleError, match=r"expected a member nothing.bin, found \['config.toml'"):
        bundle.read("nothing.bin")


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        ("onnx", "expected ONNX graphs for --runtime onnx, found none"),
        ("executorch", "expected an ExecuTorch program for --runtime executorch, found none"),
        ("tflite", "runtime: expected one of onnx, executorch, found 'tflite'"),
    ],
)
def test_a_runtime_that_the_bundle_lacks(bundle_path: Path, runtime: str, message: str) -> None:
    with pytest.raises(RuntimeUnavailableError, match=message):
        create_engine(open_bundle(bundle_path), runtime=runtime, threads=1)


def test_a_directory_is_no_bundle(tmp_path: Path) -> None:
    shutil.copytree(Path(__file__).parent, tmp_path / "tree.zip", ignore=lambda *_: [])
    with pytest.raises(BundleError, match="expected a bundle"):
        open_bundle(tmp_path / "tree.zip")
