"""Tests of the package's own native libraries and engine classes on a Java virtual machine of Linux."""

import json
import shutil
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.fetch import jars
from tools.base.layout import ANDROID, BUILD
from tools.base.processes import join_classpath
from tools.sdk import GLUE_LIBRARY, ORT_LIBRARY, build_host, compile_module, engine_jars, list_operators
from tools.testing.int8 import write_int8_vectors
from tools.testing.junit import run_junit
from tools.testing.shim import Machine, build_host_loader, build_shim

__all__ = ["run_host_tests", "run_native_tests"]

_GOLDEN = ANDROID / "native-tests" / "golden"
_PACKAGE = "dev.litenlp.nativetests"
# Libraries that a system without a runtime lacks, by the name of the runtime.
_MISSING = {"onnx": [ORT_LIBRARY], "executorch": ["libexecutorch.so"]}
# A heap that is all there from the start, so that what grows is native; calls of the glue are checked. What is to be
# compiled is compiled at once, while a test warms up: a busy machine would put it off until memory is measured.
_HEAP = "768m"
_OPTIONS = [f"-Xms{_HEAP}", "-XX:+AlwaysPreTouch", "-Xcheck:jni", "-Xbatch"]


def run_native_tests(
    libraries: Path | Sequence[Path],
    bundle: Path,
    int8_bundle: Path,
    *,
    machine: Machine | None = None,
    selected: Sequence[str] = (),
    every_line: int = 1,
    env: Mapping[str, str] | None = None,
) -> None:
    """Run the tests of native-tests, and those of a system without one runtime or both.

    Args:
        libraries: The APK, or its libraries for the machine's ABI: a folder or the files.
        bundle: The bundle whose translations native-tests/golden has, plain or compact.
        int8_bundle: One in int8.
        machine: What runs them; by default this one, as x86_64.
        selected: Names of test classes; none means all, and the systems that lack a runtime besides.
        every_line: 1 for all golden lines, 2 for every other, and so on.
        env: Variables for the Java virtual machine.

    Raises:
        BuildError: A library or tool is missing, or a test failed.
    """
    machine = machine or Machine("x86_64")
    folder = BUILD / "native-tests" / machine.abi
    shutil.rmtree(folder, ignore_errors=True)
    present = _collect(libraries, machine.abi, folder / "lib")
    if GLUE_LIBRARY not in [path.name for path in present]:
        found = [path.name for path in present]
        raise BuildError(f"{libraries}: expected libraries for {machine.abi}, with {GLUE_LIBRARY}, found {found}")
    shim = build_shim(machine, present, folder / "shim")
    properties = {
        "litenlp.loader": str(build_host_loader(machine, folder / "shim")),
        "litenlp.bundle": str(bundle.resolve()),
        "litenlp.golden": str(_GOLDEN),
        "litenlp.every-line": str(every_line),
        "litenlp.runtimes": "onnx,executorch",
        "litenlp.operators": str(_write_operators(bundle, folder / "operators.json")),
        "litenlp.int8-bundle": str(int8_bundle.resolve()),
        "litenlp.int8-vectors": str(folder / "int8-vectors.json"),
    }
    write_int8_vectors(int8_bundle, folder / "int8-vectors.json")
    tests, classpath = _compile()

    def run_suite(name: str, folder: Path, classes: Sequence[str], more: Mapping[str, str]) -> None:
        run_junit(
            f"{name}-{machine.abi}",
            classpath,
            tests,
            properties={**properties, **more, "litenlp.libraries": str(folder), "java.library.path": str(folder)},
            selected=classes,
            heap=_HEAP,
            options=_OPTIONS,
            env={**(env or {}), "LD_LIBRARY_PATH": f"{shim}:{folder}"},
        )

    run_suite("native", folder / "lib", selected, {})
    if selected:
        return
    for missing in ("onnx", "executorch", "onnx,executorch"):
        without = {file for runtime in missing.split(",") for file in _MISSING[runtime]}
        reduced = folder / f"without-{missing.replace(',', '-')}"
        _collect([path for path in present if path.name not in without], machine.abi, reduced)
        suite = reduced.name
        run_suite(suite, reduced, [f"{_PACKAGE}.MissingRuntimesTest"], {"litenlp.missing": missing})


def run_host_tests(bundle: Path) -> None:
    """Run the tests of the glue with this machine's own ONNX Runtime, from its Java package.

    Args:
        bundle: As in `run_native_tests`.

    Raises:
        BuildError: A tool is missing, or a test failed.
    """
    folder = BUILD / "native-tests" / "host"
    shutil.rmtree(folder, ignore_errors=True)
    build_host(folder)
    (package,) = (path for path in jars("desktop") if path.name.startswith("onnxruntime-"))
    with zipfile.ZipFile(package) as archive:
        (folder / ORT_LIBRARY).write_bytes(archive.read(f"ai/onnxruntime/native/linux-x64/{ORT_LIBRARY}"))
    tests, classpath = _compile()
    run_junit(
        "native-host",
        classpath,
        tests,
        properties={
            "litenlp.bundle": str(bundle.resolve()),
            "litenlp.golden": str(_GOLDEN),
            "litenlp.every-line": "4",
            "litenlp.runtimes": "onnx",
            "java.library.path": str(folder),
        },
        selected=[f"{_PACKAGE}.{name}" for name in ("EnginesTest", "MemoryTest", "TranslationsTest", "BeamsTest")],
        heap=_HEAP,
        options=_OPTIONS,
    )


def _compile() -> tuple[Path, str]:
    """Compile the tests: their classes, and the class path to run them."""
    tests = compile_module("native-tests")
    modules = [compile_module(name) for name in ("engine", "core")]
    return tests, join_classpath(tests, modules, jars("stdlib", "json"), engine_jars())


def _collect(source: Path | Sequence[Path], abi: str, folder: Path) -> list[Path]:
    """Collect an ABI's libraries, from an APK, a folder or a list, in a new folder."""
    folder.mkdir(parents=True)
    if isinstance(source, Path) and source.is_file():
        with zipfile.ZipFile(source) as package:
            for name in package.namelist():
                if name.startswith(f"lib/{abi}/"):
                    (folder / Path(name).name).write_bytes(package.read(name))
    else:
        for path in sorted(source.glob("*.so")) if isinstance(source, Path) else source:
            (folder / path.name).symlink_to(path.resolve())
    return sorted(folder.iterdir())


def _write_operators(bundle: Path, path: Path) -> Path:
    from lite_nlp.artifacts.bundles import open_any_bundle

    opened = open_any_bundle(bundle)
    entry = opened.manifest.runtimes.get("executorch")
    if entry is None:
        raise BuildError(f"{bundle}: expected a bundle with an ExecuTorch program, found none")
    path.write_text(json.dumps(list_operators(opened.read(entry.members[0]))))
    return path
