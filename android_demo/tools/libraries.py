"""The native libraries of the package: two runtimes, what they need, and our glue."""

from pathlib import Path

from tools.fetch import locked_files
from tools.layout import ABIS, ANDROID, BUILD, DEPS, TOOLS
from tools.native import GLUE_LIBRARY, build_android
from tools.processes import say
from tools.steps import list_files, run_step

__all__ = ["collect_libraries"]

_UNPACKED = DEPS / "unpacked"


def collect_libraries(abi: str) -> list[Path]:
    """The libraries for one instruction set, sorted by name; the glue is built.

    Args:
        abi: A key of `ABIS`.

    Raises:
        BuildError: The glue cannot be built.
    """
    output = BUILD / "glue" / abi

    def make(folder: Path) -> None:
        say(f"building the native glue for {abi}")
        build_android(abi, folder)

    sources = [*list_files(ANDROID / "native"), TOOLS / "native.py", *locked_files()]
    run_step(output, sources, {"target": ABIS[abi]}, make)
    onnx_runtime = _UNPACKED / "siteed-sherpa-onnx.rn" / "android/src/main/jniLibs" / abi / "libonnxruntime.so"
    executorch = _UNPACKED / "react-native-executorch" / "third-party/android/libs/executorch" / abi
    fbjni = _UNPACKED / "fbjni" / "jni" / abi
    libraries = [onnx_runtime, executorch / "libexecutorch.so", output / GLUE_LIBRARY]
    libraries += [fbjni / "libfbjni.so", fbjni / "libc++_shared.so"]
    return sorted(libraries, key=lambda path: path.name)
