"""Programs that the build runs, installed from Debian where missing. apt verifies its downloads."""

import os
import shutil
import subprocess
from collections.abc import Sequence

from tools.base.errors import BuildError
from tools.base.processes import run, say

__all__ = ["ensure_programs"]

_SMALLEST_JAVA = 17


def ensure_programs(programs: Sequence[tuple[str, str]]) -> None:
    """Install the packages of programs that are not on the path.

    Args:
        programs: Name of a program and Debian package that has it.

    Raises:
        BuildError: One is missing and cannot be installed, or Java is too old.
    """
    missing = {program: package for program, package in programs if shutil.which(program) is None}
    if missing:
        _install(missing)
    still = [program for program in missing if shutil.which(program) is None]
    if still:
        raise BuildError(f"expected {', '.join(still)} on the path after installing, found none")
    if any(program == "java" for program, _ in programs):
        _check_java()


def _install(missing: dict[str, str]) -> None:
    packages = sorted(set(missing.values()))
    wanted = f"apt-get install {' '.join(packages)}"
    if shutil.which("apt-get") is None:
        raise BuildError(f"expected {', '.join(missing)} on the path, found none, and no apt-get for: {wanted}")
    as_root: list[str] = []
    if os.geteuid() != 0:
        if shutil.which("sudo") is None or subprocess.run(["sudo", "-n", "true"], check=False).returncode:  # noqa: S607
            raise BuildError(f"expected {', '.join(missing)} on the path, found none; as root: {wanted}")
        as_root = ["sudo", "-n"]
    say(f"installing {', '.join(packages)}")
    run([*as_root, "apt-get", "update", "-qq"], what="apt-get update")
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
    run([*as_root, "env", "DEBIAN_FRONTEND=noninteractive", *install], what="apt-get install")


def _check_java() -> None:
    # The first line is like: openjdk version "17.0.15" 2025-04-15
    words = run(["java", "-version"], what="java -version").split('"')
    major = words[1].split(".")[0] if len(words) > 1 else ""
    if not major.isdigit() or int(major) < _SMALLEST_JAVA:
        raise BuildError(f"expected Java {_SMALLEST_JAVA} or newer on the path, found {major or 'an unknown version'}")
