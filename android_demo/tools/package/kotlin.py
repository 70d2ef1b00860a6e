"""The demo's Kotlin modules and their compilation by the command-line compiler."""

import dataclasses
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.fetch import jars, locked_files
from tools.base.layout import ANDROID, BUILD, DEPS
from tools.base.processes import java_command, join_classpath, run, say
from tools.base.steps import list_files, run_step
from tools.package.resources import link_resources

__all__ = ["MODULES", "Module", "classes", "compile_module", "engine_jars"]

# Lambdas as classes, since the dex compiler knows no invokedynamic; no annotations in code that Android never reads.
_OPTIONS = [
    "-no-stdlib",
    "-no-reflect",
    "-jvm-target",
    "1.8",
    "-Xjdk-release=8",
    "-Xlambdas=class",
    "-Xsam-conversions=class",
    "-Xnullability-annotations=@android.annotation:ignore",
    "-Werror",
]


@dataclasses.dataclass(frozen=True)
class Module:
    """A Kotlin module: one run of the compiler.

    Attributes:
        sources: Folders of Kotlin, relative to android_demo.
        needs: Other modules whose classes it sees.
        purposes: Downloads (downloads.toml) that it sees.
        android: Whether it sees Android's classes and the app's resources.
        engines: Whether it sees the native engines' Java classes.
        friends: Modules whose internal declarations it may use: those that it tests.
    """

    sources: tuple[str, ...]
    needs: tuple[str, ...] = ()
    purposes: tuple[str, ...] = ()
    android: bool = False
    engines: bool = False
    friends: tuple[str, ...] = ()


MODULES = {
    "core": Module(("core/src/main/kotlin",), purposes=("json",)),
    "core-test": Module(("core/src/test/kotlin",), ("core",), ("json", "junit"), friends=("core",)),
    "desktop": Module(("desktop/src/main/kotlin",), ("core",), ("json", "desktop")),
    "desktop-test": Module(
        ("desktop/src/test/kotlin",), ("core", "desktop"), ("json", "desktop", "junit"), friends=("desktop",)
    ),
    # Part of the app that needs no Android: the tests of the native libraries run it on this machine.
    "engine": Module(("app/src/main/kotlin/dev/litenlp/app/engine",), ("core",), ("json",), engines=True),
    "native-tests": Module(
        ("native-tests/src/main/kotlin",), ("core", "engine"), ("json", "junit"), engines=True, friends=("engine",)
    ),
    "app": Module(("app/src/main/kotlin",), ("core",), android=True, engines=True),
    "app-test": Module(
        ("app/src/test/kotlin", "core/src/test/kotlin/dev/litenlp/core/metrics/JsonSchema.kt"),
        ("core", "desktop", "app"),
        ("robolectric", "desktop"),
        android=True,
        engines=True,
        friends=("app",),
    ),
}


def classes(module: str) -> Path:
    """Folder of a module's classes."""
    return BUILD / "classes" / module


def engine_jars() -> list[Path]:
    """Jars of ExecuTorch's Java API and of the two libraries that load its native code."""
    return [DEPS / "unpacked" / "react-native-executorch" / "android" / "libs" / "classes.jar", *jars("engines")]


def compile_module(name: str) -> Path:
    """Compile a module and its dependencies, unless their sources are unchanged.

    Args:
        name: A key of `MODULES`.

    Returns:
        The folder of its classes.

    Raises:
        BuildError: There are no sources, or they do not compile (a warning counts as an error).
    """
    module = MODULES[name]
    for needed in module.needs:
        compile_module(needed)
    folders = [ANDROID / folder for folder in module.sources]
    sources = list_files(*folders, pattern="*.kt")
    if not sources:
        raise BuildError(f"expected Kotlin sources in {', '.join(map(str, folders))}, found none")
    libraries = jars("stdlib", *module.purposes)
    if module.engines:
        libraries += engine_jars()
    generated = [link_resources() / "classes"] if module.android else []
    if module.android:
        # Android's classes last: what an app brings with it comes first there too.
        libraries += [*generated, *jars("platform")]
    needed_classes = [classes(needed) for needed in module.needs]
    options = [*_OPTIONS, "-module-name", f"litenlp-{name}"]
    if module.friends:
        options.append("-Xfriend-paths=" + ",".join(str(classes(friend)) for friend in module.friends))

    def make(output: Path) -> None:
        say(f"compiling {name} ({len(sources)} files)")
        command = java_command(
            join_classpath(jars("kotlin")),
            "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler",
            options=["-XX:TieredStopAtLevel=1"],
        )
        classpath = join_classpath(needed_classes, libraries)
        run([*command, *options, "-classpath", classpath, "-d", output, *sources], what=f"compiling {name}")

    inputs = [*sources, *list_files(*needed_classes), *list_files(*generated), *locked_files(), Path(__file__)]
    run_step(classes(name), inputs, {"options": options, "module": dataclasses.asdict(module)}, make)
    return classes(name)
