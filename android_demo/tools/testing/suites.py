"""The Kotlin suites: JUnit 5 for core and desktop, JUnit 4 on Robolectric for the app."""

import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools.base.fetch import jars, locked_files
from tools.base.layout import ANDROID, BUILD, PACKAGE, SHARED_DATA
from tools.base.processes import join_classpath, say
from tools.base.steps import list_files, run_step
from tools.sdk import compile_module, engine_jars, link_resources, list_assets
from tools.testing.junit import run_junit

__all__ = ["run_app_tests", "run_core_tests", "run_desktop_tests"]

_TEST_CORES = 4


def run_core_tests(bundle: Path | None = None, selected: Sequence[str] = ()) -> None:
    """Run the tests of core, with all corpora where a checkout has them beside it.

    Args:
        bundle: The shipped model; without it, the tests that need it are skipped.
        selected: Names of test classes; none means all.
    """
    main, tests = compile_module("core"), compile_module("core-test")
    classpath = join_classpath(tests, ANDROID / "core/src/test/resources", main, jars("stdlib", "json"))
    properties = _describe(bundle)
    if SHARED_DATA.is_dir():
        properties["litenlp.corpora"] = str(SHARED_DATA)
    else:
        say(f"no corpora in {SHARED_DATA}: CorpusTest is skipped")
    run_junit("core", classpath, tests, properties=properties, selected=selected)


def run_desktop_tests(bundle: Path | None = None, selected: Sequence[str] = ()) -> None:
    """Run the tests of core with an engine on ONNX Runtime's Java API; arguments as above."""
    main, tests = compile_module("desktop"), compile_module("desktop-test")
    resources = ANDROID / "desktop/src/test/resources"
    classpath = join_classpath(tests, resources, main, compile_module("core"), jars("stdlib", "json", "desktop"))
    run_junit("desktop", classpath, tests, properties=_describe(bundle), selected=selected)


def run_app_tests(bundles: Sequence[Path] = (), selected: Sequence[str] = (), *, all_pictures: bool = False) -> Path:
    """Run the tests of the app on Robolectric with the resources that ship; arguments as above.

    Args:
        bundles: The shipped models, the default first; without them, the app has no model in its assets, and the tests
            that need one are skipped.
        selected: As above.
        all_pictures: Draw all pictures of the docs, for which the shipped model translates; else a few, as a test.

    Returns:
        The folder with the pictures of the screens.
    """
    main, tests, resources = compile_module("app"), compile_module("app-test"), link_resources()
    config = _write_test_config(resources, bundles)
    # Tests of the app make bundles of core's golden vectors.
    test_resources = [ANDROID / module / "src/test/resources" for module in ("app", "core")]
    modules = [main, compile_module("core"), compile_module("desktop")]
    own = [config, tests, *test_resources, *modules, resources / "classes"]
    # Android's classes last: those that Robolectric brings come first.
    classpath = join_classpath(own, jars("stdlib"), engine_jars(), jars("desktop", "robolectric", "platform"))
    screenshots = BUILD / "screenshots"
    if not selected:
        shutil.rmtree(screenshots, ignore_errors=True)
    properties = _describe(bundles[0] if bundles else None)
    properties |= {
        "litenlp.pictures": str(all_pictures).lower(),
        "litenlp.screenshots": str(screenshots),
        "robolectric.offline": "true",
        "robolectric.dependency.dir": str(_gather_systems()),
        # ONNX Runtime's native library belongs to one class loader; Robolectric has one for each system.
        "org.robolectric.packagesToNotAcquire": "ai.onnxruntime.",
        "java.awt.headless": "true",
        "user.timezone": "UTC",
    }
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in ("java.lang", "java.util", "java.io")]
    # The screens offer threads by the cores there are: the same on every machine.
    cores = f"-XX:ActiveProcessorCount={_TEST_CORES}"
    run_junit("app", classpath, tests, properties=properties, selected=selected, heap="2g", options=[*opened, cores])
    return screenshots


def _describe(bundle: Path | None) -> dict[str, str]:
    """System properties that name the shipped model and its golden translations."""
    return {"litenlp.bundle": str(bundle), "litenlp.golden": str(ANDROID / "native-tests/golden")} if bundle else {}


def _gather_systems() -> Path:
    """Gather the systems that Robolectric runs tests on in one folder: it takes no more."""
    systems = jars("sandbox", "sandbox-oldest")

    def make(folder: Path) -> None:
        folder.mkdir()
        for system in systems:
            (folder / system.name).symlink_to(system)

    folder = BUILD / "systems"
    run_step(folder, locked_files(), {"systems": [system.name for system in systems]}, make)
    return folder


def _write_test_config(resources: Path, bundles: Sequence[Path]) -> Path:
    """Write the file by which Robolectric finds the app's manifest, resources and assets; its folder.

    Args:
        resources: As `link_resources` gives them.
        bundles: The models in the assets.
    """
    config = BUILD / "test-config"
    inputs = [*list_files(resources), *bundles, *list_files(ANDROID / "licenses"), Path(__file__)]

    def make(folder: Path) -> None:
        file = folder / "com/android/tools/test_config.properties"
        file.parent.mkdir(parents=True)
        # Assets must be in the package itself: Robolectric takes a folder of them only with resources not linked yet.
        package = folder / "resources.apk"
        shutil.copy(resources / "resources.apk", package)
        with zipfile.ZipFile(package, "a") as archive:
            for name, content in list_assets(bundles).items():
                archive.writestr(f"assets/{name}", content)
        lines = {
            "android_merged_manifest": resources / "AndroidManifest.xml",
            "android_resource_apk": config / package.name,
            "android_custom_package": PACKAGE,
        }
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    run_step(config, inputs, {"bundles": [bundle.name for bundle in bundles]}, make)
    return config
