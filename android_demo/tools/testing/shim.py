"""A shim of bionic over glibc, on which Android's libraries run on Linux. For tests only.

Every symbol that the libraries import from bionic, by its version there, becomes a jump to glibc's function of that
name, or to the function `shim_NAME` of native/shim/shim.c where the two differ.
"""

import dataclasses
import os
import re
from collections.abc import Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import ANDROID
from tools.base.processes import run
from tools.sdk import java_headers

__all__ = ["Machine", "build_host_loader", "build_shim"]

_SHIM = ANDROID / "native" / "shim"

# Android's libraries that are part of the system. All symbols are in libc.so: the others need only be found.
_SYSTEM_LIBRARIES = ["libc.so", "libm.so", "libdl.so", "liblog.so", "libandroid.so"]
_VERSIONS = ["LIBC", "LIBC_N"]
_UNVERSIONED = re.compile(r"__android_log_\w+")

# On x86-64 a long double of Android's is one of 128 bits, which glibc calls by other names.
_QUAD = {name: name.replace("told", "tof128") for name in ("strtold", "strtold_l", "wcstold")}
_RENAMED = {"x86_64": {**_QUAD, "frexpl": "frexpf128", "ldexpl": "ldexpf128"}, "arm64-v8a": {}}
# The compiler's own start-up files are not needed, and another machine's are not there.
_COMPILE = ["-O1", "-fPIC", "-Wall", "-Wextra", "-Werror"]
_LINK = ["-shared", "-nostdlib", "-fuse-ld=lld", "-Wl,--no-undefined"]
_JUMP = {"x86_64": "jmp {}@PLT", "arm64-v8a": "b {}"}


@dataclasses.dataclass(frozen=True)
class Machine:
    """A Linux machine to build for: this one, or one whose files are in a folder.

    Attributes:
        abi: Android's name of its instruction set.
        compiler: The compiler with the options that make it build for this machine.
    """

    abi: str
    compiler: tuple[str, ...] = ("clang",)


def build_shim(machine: Machine, libraries: Sequence[Path], out_dir: Path) -> Path:
    """Build the shim's libraries, named as Android's system libraries.

    Args:
        machine: To run on.
        libraries: Android's libraries that are to be run.
        out_dir: Folder that gets them; made if need be.

    Returns:
        That folder, for LD_LIBRARY_PATH.

    Raises:
        BuildError: A library imports what neither glibc nor native/shim has, or a tool is missing.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    wanted: dict[str, str] = {}
    for library in libraries:
        wanted.update(_system_imports(library))
    object_file = out_dir / "shim.o"
    run([*machine.compiler, *_COMPILE, "-c", _SHIM / "shim.c", "-o", object_file], what="compiling the shim")
    jumps = out_dir / "jumps.s"
    jumps.write_text(_write_jumps(machine.abi, wanted, _own_functions(object_file)))
    script = out_dir / "versions.map"
    script.write_text("LIBC { global: __android_log_*; };\nLIBC_N { };\n")
    link = [*_LINK, f"-Wl,--version-script={script}"]
    for name in _SYSTEM_LIBRARIES:
        # glibc's own libraries by full name: those just made have the same short names.
        full = [str(jumps), str(object_file), "-l:libm.so.6", "-l:libc.so.6"]
        empty = ["-xassembler", os.devnull]
        named = [*link, f"-Wl,-soname,{name}", *(full if name == "libc.so" else empty)]
        run([*machine.compiler, *named, "-o", out_dir / name], what=f"linking the shim's {name}")
    return out_dir


def build_host_loader(machine: Machine, out_dir: Path) -> Path:
    """Build the helper that opens Android's libraries for a Java virtual machine.

    Args:
        machine: To run on.
        out_dir: Folder that gets it; made if need be.

    Returns:
        The library, for System.load.

    Raises:
        BuildError: A tool is missing.
    """
    out_dir.mkdir(parents=True, exist_ok=True)
    library = out_dir / "libhostloader.so"
    command = [*machine.compiler, *_COMPILE, *java_headers(), *_LINK, str(_SHIM / "host_loader.c"), "-l:libc.so.6"]
    run([*command, "-o", library], what="compiling the host's loader")
    return library


def _system_imports(library: Path) -> dict[str, str]:
    """Functions that a library imports from Android's system, with their symbol versions (empty for none)."""
    table = run(["readelf", "--dyn-syms", "-W", library], what="readelf")
    imports: dict[str, str] = {}
    for kind, symbol in re.findall(r" (FUNC|NOTYPE|OBJECT) +\w+ +\w+ +UND (\S+)", table):
        name, _, version = symbol.partition("@")
        # The three data objects are in shim.c with their versions.
        if kind == "OBJECT" or not (version or _UNVERSIONED.fullmatch(name)):
            continue
        if version and version not in _VERSIONS:
            raise BuildError(f"{library.name}: expected imports of versions {_VERSIONS}, found {symbol}")
        imports[name] = version
    return imports


def _own_functions(object_file: Path) -> set[str]:
    return set(re.findall(r" T shim_(\S+)", run(["nm", object_file], what="nm")))


def _write_jumps(abi: str, wanted: dict[str, str], own: set[str]) -> str:
    """Generate assembly with a jump for each import."""
    lines = [".text"]
    for name, version in sorted(wanted.items()):
        target = f"shim_{name}" if name in own else _RENAMED[abi].get(name, name)
        label = f"jump_{name}" if version else name
        lines += [f".globl {label}", f".type {label}, %function", f"{label}: {_JUMP[abi].format(target)}"]
        if version:
            lines.append(f".symver {label}, {name}@{version}")
    # A stack that must not be executed, which assembly has to say.
    lines.append('.section .note.GNU-stack,"",%progbits')
    return "\n".join(lines) + "\n"
