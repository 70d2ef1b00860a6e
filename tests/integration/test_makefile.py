"""``make setup`` with and without ``TORCH=cpu``, on an index of small packages with the same dependencies."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.pages import ROOT

#: A build backend without requirements of its own: nothing has to be downloaded.
_BACKEND = """
import zipfile

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    name = "lite_nlp-0-py3-none-any.whl"
    with zipfile.ZipFile(f"{wheel_directory}/{name}", "w") as wheel:
        metadata = "Metadata-Version: 2.1\\nName: lite-nlp\\nVersion: 0\\nProvides-Extra: dev\\n"
        wheel.writestr("lite_nlp-0.dist-info/METADATA", metadata + "Requires-Dist: torch==TORCH; extra == 'dev'\\n")
        tag = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
        wheel.writestr("lite_nlp-0.dist-info/WHEEL", tag)
        wheel.writestr("lite_nlp-0.dist-info/RECORD", "")
    return name
"""
_PROJECT = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
_CUDA_BYTES = 3_000_000


def _write_wheel(index: Path, name: str, version: str, *, requires: str = "", size_bytes: int = 0) -> None:
    with zipfile.ZipFile(index / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        needs = f"Requires-Dist: {requires}\n" if requires else ""
        info = f"{name}-{version}.dist-info"
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{name}/__init__.py", "")
        wheel.writestr(f"{name}/library.so", bytes(size_bytes))
        wheel.writestr(f"{info}/RECORD", "")


def _setup(checkout: Path, index: Path, *variables: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", "setup", f"PYTHON={sys.executable}", *variables],  # noqa: S607
        cwd=checkout,
        env=environment | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index)},
        capture_output=True,
        text=True,
        check=False,
    )


def _installed_bytes(checkout: Path, package: str) -> int:
    (packages,) = (checkout / ".venv" / "lib").glob("python*/site-packages")
    return sum(path.stat().st_size for path in packages.glob(f"{package}/**/*") if path.is_file())


@pytest.fixture
def torch_version() -> str:
    (version,) = re.findall(r"^torch==(.*)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return str(version)


@pytest.fixture
def checkout(tmp_path: Path, torch_version: str) -> Path:
    path = tmp_path / "checkout"
    path.mkdir()
    for name in ("Makefile", "constraints.txt"):
        shutil.copy(ROOT / name, path)
    (path / "pyproject.toml").write_text(_PROJECT, encoding="utf-8")
    (path / "backend.py").write_text(_BACKEND.replace("TORCH", torch_version), encoding="utf-8")
    return path


@pytest.fixture
def index(tmp_path: Path, torch_version: str) -> Path:
    path = tmp_path / "index"
    path.mkdir()
    _write_wheel(path, "nvidia", "1.0", size_bytes=_CUDA_BYTES)
    _write_wheel(path, "torch", torch_version, requires="nvidia")
    return path


def test_the_set_up_for_cpus_leaves_the_cuda_libraries_out(checkout: Path, index: Path, torch_version: str) -> None:
    done = _setup(checkout, index)
    assert done.returncode == 0, done.stderr
    assert _installed_bytes(checkout, "nvidia") >= _CUDA_BYTES

    shutil.rmtree(checkout / ".venv")
    _write_wheel(index, "torch", f"{torch_version}+cpu")
    done = _setup(checkout, index, "TORCH=cpu")
    assert done.returncode == 0, done.stderr
    assert _installed_bytes(checkout, "torch-*+cpu.dist-info") > 0
    assert _installed_bytes(checkout, "nvidia") == 0

    # A later target without the variable keeps the build that is there.
    (index / f"torch-{torch_version}+cpu-py3-none-any.whl").unlink()
    done = _setup(checkout, index)
    assert done.returncode == 0, done.stderr
    assert _installed_bytes(checkout, "nvidia") == 0


def test_an_index_without_the_build_is_an_error_that_says_what_to_do(
    checkout: Path, index: Path, torch_version: str
) -> None:
    done = _setup(checkout, index, "TORCH=cpu")
    assert done.returncode != 0
    assert (
        f"error: TORCH=cpu: expected torch=={torch_version}+cpu in an index that pip knows, found none" in done.stderr
    )
    assert "PIP_EXTRA_INDEX_URL" in done.stderr
    assert not list((checkout / ".venv").glob(".ready*"))
