"""The build's command line: `PYTHONPATH=android_demo .venv/bin/python -m tools COMMAND`."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.base.debian import ensure_programs
from tools.base.errors import BuildError
from tools.base.fetch import fetch, read_downloads
from tools.base.layout import ABIS, BUILD, PHONE_ABI, SHIPPED_MODEL, SHIPPED_MODELS
from tools.base.processes import say
from tools.sdk import (
    MODULES,
    build_package,
    check_reproducible,
    compile_module,
    write_assets,
)
from tools.testing.all_tests import run_all_tests, run_emulated_tests
from tools.testing.int8 import export_int8
from tools.testing.native_tests import run_native_tests
from tools.testing.pictures import draw_pictures
from tools.testing.suites import run_app_tests, run_core_tests, run_desktop_tests

# Suites that can be run one by one.
_SUITES: dict[str, Callable[[Path, Sequence[str]], object]] = {
    "test-core": run_core_tests,
    "test-desktop": run_desktop_tests,
    "test-app": lambda _, selected: run_app_tests(SHIPPED_MODELS, selected),
    "test-native": lambda bundle, selected: run_native_tests(
        build_package("x86_64"), bundle, export_int8(), selected=selected
    ),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tools", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch", help="install programs, download and verify everything the build needs")
    fetching.add_argument("--write-lock", action="store_true", help="renew lock.json by what comes")
    compiling = commands.add_parser("compile", help="compile modules of Kotlin")
    compiling.add_argument("modules", nargs="*", metavar="MODULE", help=f"one of {', '.join(MODULES)}")
    building = commands.add_parser("apk", help="build, sign and check the package")
    abis = "instruction set (default: %(default)s)"
    building.add_argument("--abi", choices=list(ABIS), default=PHONE_ABI, help=abis)
    shipped = "bundle to ship, the default first; may be repeated (default: the shipped models)"
    building.add_argument("--bundle", type=Path, action="append", dest="bundles", help=shipped)
    again = "build it in two other folders instead, and compare"
    building.add_argument("--check-reproducible", action="store_true", help=again)
    commands.add_parser("assets", help="write the app's assets to build/assets, where Android Studio takes them from")
    commands.add_parser("test", help="build the packages and run all tests but the emulated ones")
    commands.add_parser("test-a72", help="run the runtime for boards and the libraries for phones, emulated")
    commands.add_parser("pictures", help="draw the pictures of docs/android.md, with the shipped model translating")
    for name in _SUITES:
        testing = commands.add_parser(name, help=f"run the tests of {name.removeprefix('test-')}")
        testing.add_argument("classes", nargs="*", metavar="CLASS", help="full name of a test class")
    return parser


def _prepare(*, write_lock: bool = False) -> None:
    programs = read_downloads()["debian"]["programs"]
    ensure_programs([(program, package) for program, package in programs])
    fetch(write_lock=write_lock)


def _run(options: argparse.Namespace) -> None:
    _prepare(write_lock=options.command == "fetch" and options.write_lock)
    match options.command:
        case "fetch":
            pass
        case "compile":
            for name in options.modules or MODULES:
                compile_module(name)
        case "apk":
            if options.check_reproducible:
                check_reproducible(options.abi)
            else:
                build_package(options.abi, options.bundles or SHIPPED_MODELS)
        case "assets":
            write_assets(BUILD / "assets", SHIPPED_MODELS)
        case "test":
            run_all_tests()
        case "test-a72":
            run_emulated_tests()
        case "pictures":
            draw_pictures(SHIPPED_MODELS)
        case name:
            _SUITES[name](SHIPPED_MODEL, options.classes)


def main() -> int:
    """Run one command; 0 done, 1 failed, 2 wrong usage."""
    options = _parser().parse_args()
    try:
        _run(options)
    except BuildError as error:
        say(f"error: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
