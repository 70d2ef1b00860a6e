"""The glue between the app and ONNX Runtime's C API, built for Android without an NDK and for this machine.

Clang compiles for Android with three headers of our own and the Java development kit's. The linker gets stub
libraries with the symbols of Android's: the real ones are on the device.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import ABIS, ANDROID, DEPS, PHONE_ABI
from tools.base.processes import run
from tools.formats.elf import find_library_problems

__all__ = ["GLUE_LIBRARY", "NATIVE", "build_android", "build_host", "java_headers"]

GLUE_LIBRARY = "liblitenlp_ort.so"
ORT_LIBRARY = "libonnxruntime.so"
NATIVE = ANDROID / "native"
ORT_HEADERS = DEPS / "unpacked" / "siteed-sherpa-onnx.rn" / "prebuilt" / "include" / "onnxruntime"

_SOURCES = ["ort_library.c", "ort_session.c", "ort_tensor.c"]
# All imports of the glue from Android's C library; the compiler adds that of the stack protector.
_LIBC = ["__stack_chk_fail", "calloc", "free", "malloc", "memcpy", "memset", "strlen"]
_WARNINGS = ["-Wall", "-Wextra", "-Werror"]
_COMPILE = ["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-fstack-protector-strong", *_WARNINGS]
_ANDROID_LINK = [
    "-shared",
    "-nostdlib",
    "-fuse-ld=lld",
    "-Wl,-z,max-page-size=16384,-z,relro,-z,now,--no-undefined,--build-id=none,-s",
]


def java_headers() -> list[str]:
    """Compiler options that find jni.h of the Java development kit on the path.

    Raises:
        BuildError: There is none.
    """
    compiler = shutil.which("javac")
    folder = Path(compiler).resolve().parent.parent / "include" if compiler else Path("include")
    if not (folder / "jni.h").is_file():
        raise BuildError(f"expected a Java development kit with {folder}/jni.h on the path, found none")
    return [f"-I{folder}", f"-I{folder}/linux"]


def build_android(abi: str, out_dir: Path) -> Path:
    """Compile and link the glue for a device, and check that every device can load it.

    Args:
        abi: A key of `ABIS`.
        out_dir: Folder that gets the library; made if need be.

    Returns:
        The library.

    Raises:
        BuildError: A tool or header is missing, the sources do not compile, or the library fails its check.
    """
    target = f"--target={ABIS[abi]}"
    freestanding = ["-ffreestanding", "-nostdlibinc", f"-I{NATIVE / 'include'}"]
    if abi == PHONE_ABI:
        # The out-of-line versions are in a library of the compiler's that is not linked.
        freestanding.append("-mno-outline-atomics")
    library = out_dir / GLUE_LIBRARY
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _link_stub(target, folder, "libc.so", _LIBC, version="LIBC")
        # Without a version, else the glue would take no other release of ONNX Runtime than the stub's.
        _link_stub(target, folder, ORT_LIBRARY, ["OrtGetApiBase"])
        objects = _compile(["clang", target, *freestanding], folder)
        stubs = [folder / ORT_LIBRARY, folder / "libc.so"]
        link = ["clang", target, *_ANDROID_LINK, f"-Wl,-soname,{GLUE_LIBRARY}"]
        run([*link, *objects, *stubs, "-o", library], what=f"linking the glue for {abi}")
    problems = find_library_problems(Path(GLUE_LIBRARY), library.read_bytes(), abi, [ORT_LIBRARY])
    if problems:
        raise BuildError("; ".join(problems))
    return library


def build_host(out_dir: Path) -> Path:
    """Compile and link the glue for this machine's own ONNX Runtime (soname libonnxruntime.so.1).

    Args:
        out_dir: Folder that gets the library; made if need be.

    Returns:
        The library.

    Raises:
        BuildError: A tool or header is missing, or the sources do not compile.
    """
    library = out_dir / GLUE_LIBRARY
    out_dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _link_stub("", folder, "libonnxruntime.so.1", ["OrtGetApiBase"])
        objects = _compile(["clang"], folder)
        link = ["clang", "-shared", "-fuse-ld=lld", f"-Wl,--no-undefined,-soname,{GLUE_LIBRARY}"]
        run([*link, *objects, folder / "libonnxruntime.so.1", "-o", library], what="linking the glue for this machine")
    return library


def _compile(compiler: Sequence[str], folder: Path) -> list[Path]:
    objects = []
    for source in _SOURCES:
        output = folder / f"{source}.o"
        # An .o holds the source's name: a plain one, that the library be the same wherever it is built.
        options = [*_COMPILE, *java_headers(), f"-isystem{ORT_HEADERS}"]
        run([*compiler, *options, "-c", source, "-o", output], what=f"compiling {source}", cwd=NATIVE)
        objects.append(output)
    return objects


def _link_stub(target: str, folder: Path, name: str, symbols: Sequence[str], *, version: str = "") -> None:
    """Link a stub library: symbols without code."""
    source, script = folder / f"{name}.c", folder / f"{name}.map"
    source.write_text("".join(f"void {symbol}(void) {{}}\n" for symbol in symbols))
    options = [option for option in (target, "-ffreestanding", "-fno-builtin", "-w") if option]
    link = ["-shared", "-nostdlib", "-fuse-ld=lld", f"-Wl,-soname,{name}"]
    if version:
        script.write_text(f"{version} {{ global: *; }};\n")
        link.append(f"-Wl,--version-script={script}")
    run(["clang", *options, *link, source, "-o", folder / name], what=f"linking a stub of {name}")
