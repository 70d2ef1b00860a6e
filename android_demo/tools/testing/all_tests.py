"""All test suites in one run, with the failures named at the end."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tools.base.errors import BuildError
from tools.base.layout import EMULATOR_ABI, PHONE_ABI, SHIPPED_MODEL, SHIPPED_MODELS
from tools.base.processes import say
from tools.sdk import build_package, package_path
from tools.testing.arm64 import run_arm64_tests
from tools.testing.board import run_board_tests
from tools.testing.int8 import export_int8
from tools.testing.native_tests import run_host_tests, run_native_tests
from tools.testing.suites import run_app_tests, run_core_tests, run_desktop_tests

__all__ = ["run_all_tests", "run_chains", "run_emulated_tests"]


def run_all_tests() -> None:
    """Run core, desktop and app tests, build and check both packages, and test the libraries that ship.

    Raises:
        BuildError: Something failed; all that did is named.
    """
    # The longest first.
    run_chains(
        {"app": lambda: run_app_tests(SHIPPED_MODELS)},
        {
            "package for emulators": lambda: _build(EMULATOR_ABI),
            "native libraries": lambda: run_native_tests(package_path(EMULATOR_ABI), SHIPPED_MODEL, export_int8()),
            "package for phones": lambda: _build(PHONE_ABI),
        },
        {"core": lambda: run_core_tests(SHIPPED_MODEL)},
        {"desktop": lambda: run_desktop_tests(SHIPPED_MODEL)},
        {"native glue": lambda: run_host_tests(SHIPPED_MODEL)},
    )


def run_emulated_tests() -> None:
    """Test the runtime for boards and the libraries for phones in an emulated processor.

    Raises:
        BuildError: Something failed; all that did is named.
    """
    run_chains(
        {"runtime for boards": run_board_tests},
        {"libraries for phones": lambda: run_arm64_tests(build_package(PHONE_ABI), SHIPPED_MODEL, export_int8())},
    )


def run_chains(*chains: dict[str, Callable[[], object]], at_once: int = 2) -> None:
    """Run chains of named steps, several chains at a time: most of a step is one thread's work.

    Args:
        chains: A step waits for those before it in its chain, and is run also if they fail.
        at_once: Chains under way at a time; they begin in the order given.

    Raises:
        BuildError: At least one step failed; all that did are named.
    """
    with ThreadPoolExecutor(at_once) as pool:
        failures = [failure for found in pool.map(_run_chain, chains) for failure in found]
    if failures:
        count = sum(len(chain) for chain in chains)
        raise BuildError(f"{len(failures)} of {count} steps failed\n" + "\n".join(failures))


def _run_chain(chain: dict[str, Callable[[], object]]) -> list[str]:
    """Run steps one after another, and return the failures."""
    failures: list[str] = []
    for name, step in chain.items():
        say(f"{name}: begins")
        started, verdict = time.monotonic(), "passed"
        try:
            step()
        except BuildError as error:
            verdict = "failed"
            failures.append(f"{name}: {error}")
        say(f"{name}: {verdict} ({time.monotonic() - started:.0f} s)")
    return failures


def _build(abi: str) -> None:
    # One that failed must not leave an older one for the tests after it.
    package_path(abi).unlink(missing_ok=True)
    build_package(abi)
