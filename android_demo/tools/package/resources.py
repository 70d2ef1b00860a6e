"""The app's resources, compiled and linked by aapt2 against the platform's table in a form that it reads."""

import re
import tempfile
import zipfile
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.fetch import jars, locked_files
from tools.base.layout import ANDROID, BUILD, MIN_SDK, TARGET_SDK, TOOLS
from tools.base.processes import run, say
from tools.base.steps import list_files, run_step
from tools.formats.arsc import rewrite_table
from tools.package.manifest import complete_manifest

__all__ = ["EXPECTED_WARNINGS", "link_resources", "shorten_names", "unexpected_warnings"]

MANIFEST = ANDROID / "app/src/main/AndroidManifest.xml"
_RESOURCES = ANDROID / "app/src/main/res"
# Patterns of whole lines. aapt2 is older than the element that it warns of.
EXPECTED_WARNINGS = (r".*warn: unexpected element <queries> found in <manifest>\.",)


def link_resources() -> Path:
    """Link the resources.

    Returns:
        A folder with `resources.apk` (binary manifest, table, files), `AndroidManifest.xml` (as it was linked),
        `keep.pro` (what the manifest and the layouts name, for the shrinker) and `classes` (of R).

    Raises:
        BuildError: A resource is wrong, or aapt2 warns of something that is not expected.
    """
    output = BUILD / "resources"
    files = list_files(_RESOURCES)
    if not files:
        raise BuildError(f"expected resources in {_RESOURCES}, found none")
    code = [TOOLS / name for name in ("formats/arsc.py", "package/manifest.py", "package/resources.py")]
    inputs = [*files, MANIFEST, *locked_files(), *code]
    framework = _framework()
    run_step(output, inputs, {}, lambda folder: _link(folder, framework))
    return output


def shorten_names(linked: Path, output: Path) -> None:
    """Shorten the names of linked resources and the paths of their files.

    Code and layouts name resources by number; nothing in the app looks one up by its name.

    Raises:
        BuildError: aapt2 failed.
    """
    options: list[str | Path] = ["--enable-resource-obfuscation", "--enable-resource-path-shortening"]
    run(["aapt2", "optimize", *options, "-o", output, linked], what="aapt2 optimize")


def unexpected_warnings(output: str) -> list[str]:
    """Lines of aapt2's output that are not among those expected."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return [line for line in lines if not any(re.fullmatch(pattern, line) for pattern in EXPECTED_WARNINGS)]


def _framework() -> Path:
    """Make the platform's resources a package that this aapt2 reads; once."""
    output = BUILD / "framework.apk"

    def make(path: Path) -> None:
        say("preparing the platform's resource table")
        (platform,) = jars("platform")
        with zipfile.ZipFile(platform) as source, zipfile.ZipFile(path, "w") as target:
            # Stored: aapt2 maps the table into memory.
            target.writestr("resources.arsc", rewrite_table(source.read("resources.arsc")))
            target.writestr("AndroidManifest.xml", source.read("AndroidManifest.xml"))

    run_step(output, [*locked_files(), TOOLS / "formats/arsc.py"], {}, make)
    return output


def _link(folder: Path, framework: Path) -> None:
    say("linking resources")
    (folder / "classes").mkdir(parents=True)
    manifest = folder / "AndroidManifest.xml"
    manifest.write_bytes(complete_manifest(MANIFEST))
    with tempfile.TemporaryDirectory() as name:
        compiled, java = Path(name) / "compiled", Path(name) / "java"
        compiled.mkdir()
        # Each by its name, in one order and from one place: a folder's own order is another one on each file system.
        files = [path.relative_to(_RESOURCES.parent) for path in list_files(_RESOURCES)]
        said = run(["aapt2", "compile", "-o", compiled, *files], what="aapt2 compile", cwd=_RESOURCES.parent)
        levels = ["--min-sdk-version", str(MIN_SDK), "--target-sdk-version", str(TARGET_SDK)]
        outputs: list[str | Path] = ["-o", folder / "resources.apk", "--java", java, "--proguard", folder / "keep.pro"]
        options: list[str | Path] = ["--no-version-vectors", "--warn-manifest-validation"]
        options += ["-I", framework, "--manifest", manifest]
        said += run(["aapt2", "link", *options, *levels, *outputs, *list_files(compiled)], what="aapt2 link")
        unexpected = unexpected_warnings(said)
        if unexpected:
            raise BuildError("aapt2: expected no such warnings, found\n  " + "\n  ".join(unexpected))
        sources = list_files(java, pattern="*.java")
        run(["javac", "--release", "8", "-Xlint:-options", "-d", folder / "classes", *sources], what="javac of R")
    # The rules name the file they come from, whose path is another one on each machine.
    keep = folder / "keep.pro"
    keep.write_text("".join(line + "\n" for line in keep.read_text().splitlines() if not line.startswith("#")))
