"""The native libraries of the package: two runtimes, their dependencies, and our glue."""

from pathlib import Path

from tools.base.fetch import locked_files
from tools.base.layout import ABIS, ANDROID, BUILD, DEPS, PHONE_ABI, TOOLS
from tools.base.processes import say
from tools.base.steps import list_files, run_step
from tools.formats.atomics import replace_unguarded
from tools.package.native import GLUE_LIBRARY, build_android

__all__ = ["collect_libraries"]

_UNPACKED = DEPS / "unpacked"
# A large function of the ExecuTorch library that nothing in the app calls: speech recognition.
_UNUSED = "Java_org_pytorch_executorch_extension_asr_AsrModule_nativeTranscribe"


def collect_libraries(abi: str) -> list[Path]:
    """Collect the libraries for one instruction set, sorted by name; the glue is built.

    Args:
        abi: A key of `ABIS`.

    Raises:
        BuildError: The glue cannot be built.
    """
    output = BUILD / "glue" / abi

    def make(folder: Path) -> None:
        say(f"building the native glue for {abi}")
        build_android(abi, folder)

    sources = [*list_files(ANDROID / "native"), TOOLS / "package/native.py", *locked_files()]
    run_step(output, sources, {"target": ABIS[abi]}, make)
    onnx_runtime = _UNPACKED / "siteed-sherpa-onnx.rn" / "android/src/main/jniLibs" / abi / "libonnxruntime.so"
    executorch = _UNPACKED / "react-native-executorch/third-party/android/libs/executorch" / abi / "libexecutorch.so"
    fbjni = _UNPACKED / "fbjni" / "jni" / abi
    libraries = [onnx_runtime, _make_portable(executorch) if abi == PHONE_ABI else executorch, output / GLUE_LIBRARY]
    libraries += [fbjni / "libfbjni.so", fbjni / "libc++_shared.so"]
    return sorted(libraries, key=lambda path: path.name)


def _make_portable(library: Path) -> Path:
    """Patch an arm64 library for processors without the atomic instructions of ARMv8.1."""
    output = BUILD / "portable" / library.name

    def make(file: Path) -> None:
        file.write_bytes(replace_unguarded(library.read_bytes(), library.name, _UNUSED))

    run_step(output, [library, TOOLS / "formats/atomics.py", TOOLS / "formats/elf.py"], {"room": _UNUSED}, make)
    return output
