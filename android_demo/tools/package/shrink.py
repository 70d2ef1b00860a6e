"""The program: classes shrunk by ProGuard and translated to Android's classes.dex by dx."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.fetch import jars, locked_files
from tools.base.layout import BUILD, MIN_SDK
from tools.base.processes import java_command, join_classpath, run, say
from tools.base.steps import list_files, run_step
from tools.formats.class_files import find_private_access, read_jar
from tools.package.kotlin import classes, compile_module, engine_jars
from tools.package.resources import link_resources

__all__ = ["find_linked_calls", "make_dex", "shrink_program"]

_RULES = Path(__file__).with_name("shrink.pro")
# No module-info of Java 9 (the dex compiler stops at it), and no metadata of Kotlin that nothing reads.
_FILTER = "(!META-INF/**,!**.kotlin_builtins,!**.kotlin_module,!**module-info.class)"


def shrink_program() -> Path:
    """Shrink the app and its libraries to one jar of the classes and members in use.

    Raises:
        BuildError: A step fails, or classes use each other's private members.
    """
    compile_module("app")
    resources = link_resources()
    folders = [classes("app"), classes("core"), resources / "classes"]
    libraries = [*engine_jars(), *(jar for jar in jars("stdlib") if jar.name.startswith("kotlin-stdlib"))]
    rules = [_RULES, resources / "keep.pro"]
    output = BUILD / "program.jar"
    inputs = [*list_files(*folders), *rules, *locked_files(), Path(__file__)]
    run_step(output, inputs, {}, lambda path: _shrink(path, [*folders, *libraries], rules))
    return output


def _shrink(path: Path, parts: Sequence[Path], rules: Sequence[Path]) -> None:
    say("shrinking the program")
    command = java_command(join_classpath(jars("proguard")), "proguard.ProGuard")
    for part in parts:
        command += ["-injars", f"{part}{_FILTER}"]
    # ProGuard writes by the name's ending.
    with tempfile.TemporaryDirectory() as name:
        shrunk = Path(name) / "program.jar"
        command += ["-outjars", str(shrunk), "-libraryjars", f"{_java_base()}(!**.jar;!module-info.class)"]
        command += ["-libraryjars", str(jars("platform")[0])]
        for rule in rules:
            command += ["-include", str(rule)]
        output = run(command, what="ProGuard")
        warnings = [line for line in output.splitlines() if line.startswith("Warning")]
        if warnings:
            raise BuildError("ProGuard: expected no warnings, found\n  " + "\n  ".join(warnings))
        problems = find_private_access(read_jar(shrunk))
        if problems:
            raise BuildError(
                "shrunk program: expected classes to keep off each other's private members, found\n  "
                + "\n  ".join(problems)
            )
        shutil.copyfile(shrunk, path)


def _java_base() -> Path:
    """Path of the classes of java.base, which Android's jar leaves out."""
    compiler = shutil.which("javac")
    home = Path(os.path.realpath(compiler)).parent.parent if compiler else Path()
    module = home / "jmods" / "java.base.jmod"
    if not module.is_file():
        raise BuildError(f"expected {module} of the Java development kit, found none")
    return module


def make_dex(program: Path) -> Path:
    """Translate the program to dex.

    Args:
        program: The shrunk jar.

    Returns:
        The file classes.dex.

    Raises:
        BuildError: A step fails, or the code has calls that are linked at run time, which old systems lack.
    """
    output = BUILD / "dex"

    def make(folder: Path) -> None:
        say("translating to dex")
        folder.mkdir()
        dex = folder / "classes.dex"
        command = java_command(join_classpath(jars("dx")), "com.android.dx.command.Main")
        run([*command, "--dex", f"--min-sdk-version={MIN_SDK}", f"--output={dex}", program], what="dx")
        if len(list(folder.iterdir())) != 1:
            raise BuildError(f"dx: expected one file, found {sorted(path.name for path in folder.iterdir())}")
        linked = find_linked_calls(run(["dexdump", "-d", dex], what="dexdump"))
        if linked:
            raise BuildError("dx: expected no calls that are linked at run time, found\n  " + "\n  ".join(linked))

    run_step(output, [program, *locked_files(), Path(__file__)], {}, make)
    return output / "classes.dex"


def find_linked_calls(disassembly: str) -> list[str]:
    """Lines of dexdump's output with calls that are linked at run time (invokedynamic)."""
    return [line.strip() for line in disassembly.splitlines() if "invoke-custom" in line]
