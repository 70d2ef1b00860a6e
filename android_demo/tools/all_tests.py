"""Runs every suite, and says at the end which of them failed."""

import time
from collections.abc import Callable

from tools.arm64 import run_arm64_tests
from tools.errors import BuildError
from tools.model import export_model
from tools.native_tests import run_host_tests, run_native_tests
from tools.package import build_package, package_path
from tools.processes import say
from tools.suites import run_app_tests, run_core_tests, run_desktop_tests

__all__ = ["run_all_tests", "run_emulated_tests", "run_steps"]

_PHONE, _EMULATOR = "arm64-v8a", "x86_64"


def run_all_tests() -> None:
    """Core, desktop, app, both packages with their checks, and the libraries that ship.

    Raises:
        BuildError: Something failed; all that did is named.
    """
    bundle = export_model()
    run_steps(
        {
            "core": lambda: run_core_tests(bundle),
            "desktop": lambda: run_desktop_tests(bundle),
            "app": lambda: run_app_tests(bundle),
            "package for phones": lambda: _build(_PHONE),
            "package for emulators": lambda: _build(_EMULATOR),
            "native glue": lambda: run_host_tests(bundle),
            "native libraries": lambda: run_native_tests(package_path(_EMULATOR), bundle),
        }
    )


def run_emulated_tests() -> None:
    """The libraries for phones, in an emulated processor.

    Raises:
        BuildError: A test failed.
    """
    run_arm64_tests(build_package(_PHONE), export_model())


def run_steps(steps: dict[str, Callable[[], object]]) -> None:
    """Run steps one after another, the later ones too when one fails.

    Raises:
        BuildError: At least one failed.
    """
    failures: list[str] = []
    for name, step in steps.items():
        started, verdict = time.monotonic(), "passed"
        try:
            step()
        except BuildError as error:
            verdict = "failed"
            failures.append(f"{name}: {error}")
        say(f"{name}: {verdict} ({time.monotonic() - started:.0f} s)")
    if failures:
        raise BuildError(f"{len(failures)} of {len(steps)} steps failed\n" + "\n".join(failures))


def _build(abi: str) -> None:
    # One that failed must not leave an older one for the tests after it.
    package_path(abi).unlink(missing_ok=True)
    build_package(abi)
