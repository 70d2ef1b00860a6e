"""Native tests of the arm64 libraries, which phones use, in an emulated processor with an arm64 Java."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from tools.base.layout import PHONE_ABI
from tools.testing.emulation import JAVA, emulate, unpack_programs
from tools.testing.native_tests import run_native_tests
from tools.testing.shim import Machine

__all__ = ["run_arm64_tests"]

# Emulated, a decoder step takes a second or so: every so many of the golden lines, none of them the long ones.
_EVERY_LINE = 37
_PACKAGE = "dev.litenlp.nativetests"
# Those with several threads are not among them: the C library here is glibc, whose condition variables lie at addresses
# of 8 bytes where Android's need 4, which ARM does not forgive.
_CLASSES = ["EnginesTest", "ProgramTest", "TranslationsTest", "RefusalsTest", "Int8Test"]


def run_arm64_tests(
    libraries: Path | Sequence[Path], bundle: Path, int8_bundle: Path, *, selected: Sequence[str] = ()
) -> None:
    """Run the single-threaded tests of native-tests under qemu, on a sample of the golden lines.

    Args:
        libraries: The APK for arm64-v8a, or its libraries: a folder or the files.
        bundle: As in `run_native_tests`.
        int8_bundle: As there.
        selected: Names of test classes; none means those.

    Raises:
        BuildError: Debian's packages cannot be had, or a test failed.
    """
    root = unpack_programs()
    launcher = root / "bin" / "java"
    launcher.parent.mkdir(exist_ok=True)
    launcher.write_text(f'#!/bin/sh\nexec {shlex.join(emulate(root, JAVA))} "$@"\n')
    launcher.chmod(0o755)
    machine = Machine(PHONE_ABI, ("clang", "--target=aarch64-linux-gnu", f"--sysroot={root}"))
    run_native_tests(
        libraries,
        bundle,
        int8_bundle,
        machine=machine,
        selected=selected or [f"{_PACKAGE}.{name}" for name in _CLASSES],
        every_line=_EVERY_LINE,
        env={"PATH": f"{launcher.parent}{os.pathsep}{os.environ['PATH']}"},
    )
