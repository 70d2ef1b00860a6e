"""Native tests of the arm64 libraries, which phones use, under qemu.

qemu, an arm64 Java and the C library are taken from Debian into a folder of the build; nothing is installed. apt
verifies what it downloads by Debian's signatures.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.base.layout import BUILD, PHONE_ABI
from tools.base.processes import run, say
from tools.base.steps import run_step
from tools.testing.native_tests import run_native_tests
from tools.testing.shim import Machine

__all__ = ["run_arm64_tests"]

_QEMU = "qemu-user-static"
# What the Java virtual machine loads when it draws nothing, and the headers of the C library.
_ARM64 = ["openjdk-17-jre-headless", "libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1", "libstdc++6", "zlib1g"]
# The processor that the product is made for: an instruction that it lacks ends the process.
_PROCESSOR = "cortex-a72"
_JAVA = "usr/lib/jvm/java-17-openjdk-arm64/bin/java"
# Emulated, a decoder step takes a second or so: every so many of the golden lines, none of them the long ones.
_EVERY_LINE = 37
_PACKAGE = "dev.litenlp.nativetests"
# Those with several threads are not among them: the C library here is glibc, whose condition variables lie at addresses
# of 8 bytes where Android's need 4, which ARM does not forgive.
_CLASSES = ["EnginesTest", "ProgramTest", "TranslationsTest", "RefusalsTest"]


def run_arm64_tests(libraries: Path | Sequence[Path], bundle: Path, *, selected: Sequence[str] = ()) -> None:
    """Run the single-threaded tests of native-tests under qemu, on a sample of the golden lines.

    Args:
        libraries: The APK for arm64-v8a, or its libraries: a folder or the files.
        bundle: As in `run_native_tests`.
        selected: Names of test classes; none means those.

    Raises:
        BuildError: Debian's packages cannot be had, or a test failed.
    """
    root = BUILD / "arm64"
    run_step(root, [Path(__file__)], {"packages": [_QEMU, *_ARM64]}, _unpack)
    launcher = root / "bin" / "java"
    launcher.parent.mkdir(exist_ok=True)
    emulator = f'"{root}/usr/bin/qemu-aarch64-static" -cpu {_PROCESSOR} -L "{root}"'
    launcher.write_text(f'#!/bin/sh\nexec {emulator} "{root}/{_JAVA}" "$@"\n')
    launcher.chmod(0o755)
    machine = Machine(PHONE_ABI, ("clang", "--target=aarch64-linux-gnu", f"--sysroot={root}"))
    run_native_tests(
        libraries,
        bundle,
        machine=machine,
        selected=selected or [f"{_PACKAGE}.{name}" for name in _CLASSES],
        every_line=_EVERY_LINE,
        env={"PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}"},
    )


def _unpack(root: Path) -> None:
    """Unpack the packages to a folder, by package lists of its own: the machine's lack arm64."""
    root.mkdir()
    state = root / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    here = run(["dpkg", "--print-architecture"], what="dpkg").strip()
    options = [
        f"APT::Architectures::={here}",
        "APT::Architectures::=arm64",
        "APT::Sandbox::User=",
        "Debug::NoLocking=1",
        f"Dir::State={state}",
        f"Dir::State::status={state / 'status'}",
        f"Dir::Cache={state}",
    ]
    apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    say("fetching an arm64 Java and qemu (70 MB, once)")
    run([*apt, "update"], what="apt-get update")
    packages = [f"{_QEMU}:{here}", *(f"{name}:arm64" for name in _ARM64)]
    run([*apt, "download", *packages], what="apt-get download", cwd=state)
    for package in sorted(state.glob("*.deb")):
        run(["dpkg", "-x", package, root], what=f"dpkg -x {package.name}")
    shutil.rmtree(state)
