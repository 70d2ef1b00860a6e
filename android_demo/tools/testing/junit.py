"""JUnit runs on the Java virtual machine, and their failures."""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

from tools.base.errors import BuildError
from tools.base.fetch import jars
from tools.base.layout import ANDROID, BUILD
from tools.base.processes import java_command, join_classpath, run

__all__ = ["read_failures", "run_junit"]


def run_junit(
    name: str,
    classpath: str,
    scan: Path,
    *,
    properties: Mapping[str, str],
    selected: Sequence[str] = (),
    heap: str = "1g",
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> None:
    """Run the tests of a folder of classes under JUnit's console launcher.

    Args:
        name: Of the suite; its XML reports are in build/reports/NAME.
        classpath: What the tests see, themselves included.
        scan: Folder that is searched for tests.
        properties: System properties that the tests read.
        selected: Names of test classes; none means all.
        heap: As -Xmx takes it.
        options: More options of the virtual machine.
        env: Variables for it, added to ours.

    Raises:
        BuildError: A test failed, or there is none; all that failed are named.
    """
    defines = [f"-D{key}={value}" for key, value in properties.items()]
    launcher = java_command(
        "",
        "org.junit.platform.console.ConsoleLauncher",
        heap=heap,
        options=[*options, *defines],
    )
    chosen = [f"--select-class={one}" for one in selected] or [f"--scan-classpath={scan}"]
    include = ["--include-classname=.*"] if selected else []
    reports = BUILD / "reports" / name
    shutil.rmtree(reports, ignore_errors=True)
    report = ["--reports-dir", str(reports), "--details=tree", "--disable-banner"]
    command = [*launcher, "execute", *chosen, *include, "--fail-if-no-tests", *report]
    try:
        # Not on the command line: ONNX Runtime searches its process's by a recursion as deep as it is long.
        paths = {"CLASSPATH": join_classpath(jars("junit")) + ":" + classpath}
        run(command, what=f"the tests of {name}", cwd=ANDROID, env={**paths, **(env or {})}, show=True)
    except BuildError as error:
        raise BuildError("\n".join([str(error), *read_failures(reports)])) from error


def read_failures(reports: Path) -> list[str]:
    """Read the failures from JUnit's reports.

    Args:
        reports: Folder of JUnit's XML reports; without any, as after a crash, nothing is known to have failed.

    Returns:
        "Class.test: type: message", in the order of the reports; or "file: expected ..." of one that a crash cut off.
    """
    found: list[str] = []
    for file in sorted(reports.glob("*.xml")):
        try:
            suite = ElementTree.parse(file)  # noqa: S314 - our own file
        except ElementTree.ParseError as error:
            found.append(f"{file.name}: expected a whole report, found {error}")
            continue
        for case in suite.iter("testcase"):
            place = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name')}"
            for failure in (*case.iter("failure"), *case.iter("error")):
                said = (failure.get("type"), failure.get("message"))
                found.append(": ".join([place, *filter(None, said)]))
    return found
