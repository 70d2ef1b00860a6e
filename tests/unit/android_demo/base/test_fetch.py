"""Downloads are taken only as the lock has them, and appear whole or not at all."""

import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import tools.base.fetch
import tools.base.steps
from tools.base.errors import BuildError
from tools.base.fetch import LOCK_FILE, compare_with_lock, fetch, jars, read_downloads, read_lock
from tools.base.layout import ANDROID

TABLE = """
[maven]
json = ["org.json:json:1"]
engines = ["com.facebook:fbjni:2:aar"]
[npm]
"@some/package" = { version = "3.0.0", unpack = ["libs/arm64/libx.so", "include"] }
"""
Downloads = Callable[[], None]


def archive_of_package() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        for name in (
            "package/libs/arm64/libx.so",
            "package/include/a/x.h",
            "package/includes.txt",
            "package/install.js",
        ):
            info = tarfile.TarInfo(name)
            info.size = len(name)
            tar.addfile(info, io.BytesIO(name.encode()))
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A build folder; Maven and npm put files there without asking any registry."""
    package = archive_of_package()

    def run(command: Sequence[str | Path], *, what: str, cwd: Path) -> str:
        if command[0] == "npm":
            assert "--ignore-scripts" in command
            (cwd / "some-package-3.0.0.tgz").write_bytes(package)
            return ""
        poms = {path.parent.name: path.read_text() for path in cwd.rglob("pom.xml")}
        assert "<artifactId>fbjni</artifactId><version>2</version><type>aar</type>" in poms["engines"]
        assert "<modules><module>json</module><module>engines</module></modules>" in poms[cwd.name]
        for purpose in ("json", "engines"):
            (cwd.parent / "maven" / purpose).mkdir(parents=True)
        (cwd.parent / "maven/json/json-1.jar").write_bytes(b"json")
        with zipfile.ZipFile(cwd.parent / "maven/engines/fbjni-2.aar", "w") as aar:
            aar.writestr(zipfile.ZipInfo("classes.jar"), b"classes")
            aar.writestr(zipfile.ZipInfo("jni/x86_64/libfbjni.so"), b"library")
            aar.writestr(zipfile.ZipInfo("prefab/libfbjni.so"), b"not this")
        return ""

    downloads = tmp_path / "downloads.toml"
    downloads.write_text(TABLE)
    monkeypatch.setattr(tools.base.fetch, "run", run)
    monkeypatch.setattr(tools.base.fetch, "_DOWNLOADS_FILE", downloads)
    monkeypatch.setattr(tools.base.fetch, "LOCK_FILE", tmp_path / "lock.json")
    monkeypatch.setattr(tools.base.fetch, "DEPS", tmp_path / "build" / "deps")
    monkeypatch.setattr(tools.base.steps, "BUILD", tmp_path / "build")
    return tmp_path / "build" / "deps"


def change_lock(change: Callable[[dict[str, str]], object]) -> None:
    content = json.loads(tools.base.fetch.LOCK_FILE.read_text())
    change(content["files"])
    tools.base.fetch.LOCK_FILE.write_text(json.dumps(content))


def test_without_a_lock_nothing_is_taken(folder: Path) -> None:
    with pytest.raises(BuildError, match=r"expected the lock .*lock\.json, found none"):
        fetch()
    assert not folder.exists()


def test_what_is_locked_is_unpacked(folder: Path) -> None:
    fetch(write_lock=True)
    names = ["maven/engines/fbjni-2.aar", "maven/json/json-1.jar", "npm/some-package-3.0.0.tgz"]
    assert sorted(read_lock()) == names
    fetch()
    unpacked = folder / "unpacked"
    assert [str(path.relative_to(unpacked)) for path in sorted(unpacked.rglob("*")) if path.is_file()] == [
        "fbjni/jni/x86_64/libfbjni.so",
        "some-package/include/a/x.h",
        "some-package/libs/arm64/libx.so",
    ]
    assert [path.read_bytes() for path in jars("json", "engines")] == [b"json", b"classes"]
    with pytest.raises(BuildError, match=r"expected jars in .*kotlin, found none"):
        jars("kotlin")


def test_a_second_run_fetches_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetch(write_lock=True)

    def no_run(*_: object, **__: object) -> str:
        raise AssertionError("a program was run")

    monkeypatch.setattr(tools.base.fetch, "run", no_run)
    fetch()
    change_lock(lambda files: files.update({"maven/json/json-1.jar": "0" * 64}))
    with pytest.raises(AssertionError, match="a program was run"):
        fetch()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda files: files.update({"maven/json/json-1.jar": "0" * 64}),
            r"json-1\.jar: expected sha256 0{64}, found \w",
        ),
        (lambda files: files.pop("maven/json/json-1.jar"), r"json-1\.jar: expected no such file, found sha256 \w{64}"),
        (
            lambda files: files.update({"npm/more.tgz": "1" * 64}),
            r"npm/more\.tgz: expected sha256 1{64}, found no file",
        ),
    ],
)
def test_what_differs_from_the_lock_is_refused(
    folder: Path, change: Callable[[dict[str, str]], object], problem: str
) -> None:
    fetch(write_lock=True)
    before = sorted(folder.rglob("*"))
    change_lock(change)
    with pytest.raises(BuildError, match=problem):
        fetch()
    assert sorted(folder.rglob("*")) == before
    assert [path.name for path in folder.parent.iterdir() if path.name.startswith(".fetch-")] == []


def test_all_differences_are_named() -> None:
    found, locked = {"a": "1", "b": "2", "c": "3"}, {"b": "2", "c": "4", "d": "5"}
    assert compare_with_lock(found, locked) == [
        "d: expected sha256 5, found no file",
        "a: expected no such file, found sha256 1",
        "c: expected sha256 4, found 3",
    ]
    assert compare_with_lock(found, found) == []


def test_the_lock_of_the_repository_covers_what_is_downloaded() -> None:
    locked = json.loads(LOCK_FILE.read_text())["files"]
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in locked.values())
    table = read_downloads()
    for purpose, artifacts in table["maven"].items():
        for artifact in artifacts:
            _, name, version, *_ = artifact.split(":")
            start = f"maven/{purpose}/{name}-{version}"
            assert any(file.startswith(start) for file in locked), artifact
    for name, package in table["npm"].items():
        assert f"npm/{name.lstrip('@').replace('/', '-')}-{package['version']}.tgz" in locked


def test_no_address_is_written_down() -> None:
    patterns = ("tools/**/*.py", "tools/**/*.toml", "**/*.gradle.kts")
    files = [*(path for pattern in patterns for path in ANDROID.glob(pattern)), LOCK_FILE]
    assert {"fetch.py", "downloads.toml", "build.gradle.kts"} <= {path.name for path in files}
    # Names of XML vocabularies, which nothing is fetched from, and an address in a text for tokenizers.
    names = {"http://maven.apache.org/POM/4.0.0", "http://schemas.android.com/apk/res/android"}
    names.add("https://example.org/path?q=1&r=%20#frag")
    for path in files:
        assert set(re.findall(r"https?://[^\s\"'<>)]+", path.read_text())) <= names, path
