"""Downloads of the build by the machine's Maven and npm, every file verified against lock.json.

A file that is missing, altered or not in the lock ends the build; the unpacked folder appears only when all files are
verified.
"""

import json
import re
import shutil
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from tools.base.errors import BuildError
from tools.base.layout import DEPS
from tools.base.processes import run, say
from tools.base.steps import digest_file, exclusively

__all__ = ["LOCK_FILE", "compare_with_lock", "fetch", "jars", "locked_files", "read_downloads", "read_lock"]

LOCK_FILE = Path(__file__).with_name("lock.json")
_DOWNLOADS_FILE = Path(__file__).with_name("downloads.toml")
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_POM = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>{}</project>\n'
_NAMES = "<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"


def read_downloads() -> dict[str, Any]:
    """Read the table of downloads, downloads.toml."""
    return tomllib.loads(_DOWNLOADS_FILE.read_text())


def read_lock() -> dict[str, str]:
    """Read the lock: SHA-256 by path in the downloads' folder, such as `maven/json/json-1.jar`.

    Raises:
        BuildError: There is no lock.
    """
    if not LOCK_FILE.is_file():
        raise BuildError(f"expected the lock {LOCK_FILE}, found none: `fetch --write-lock` makes it")
    files = json.loads(LOCK_FILE.read_text())["files"]
    return {str(name): str(digest) for name, digest in files.items()}


def locked_files() -> list[Path]:
    """Files that determine the downloads: inputs of every step that uses one."""
    return [_DOWNLOADS_FILE, LOCK_FILE]


def jars(*purposes: str) -> list[Path]:
    """Jars of the given purposes of downloads.toml, each sorted by name; an .aar counts by its classes.

    Raises:
        BuildError: A purpose has none.
    """
    found: list[Path] = []
    for purpose in purposes:
        folder = DEPS / "maven" / purpose
        here = sorted(path for path in folder.iterdir() if path.suffix == ".jar") if folder.is_dir() else []
        if not here:
            raise BuildError(f"expected jars in {folder}, found none: run `fetch`")
        found += here
    return found


def compare_with_lock(found: dict[str, str], locked: dict[str, str]) -> list[str]:
    """Differences between downloaded files and the lock, a line for each."""
    problems = [f"{name}: expected sha256 {locked[name]}, found no file" for name in sorted(locked.keys() - found)]
    problems += [f"{name}: expected no such file, found sha256 {found[name]}" for name in sorted(found.keys() - locked)]
    problems += [
        f"{name}: expected sha256 {locked[name]}, found {found[name]}"
        for name in sorted(locked.keys() & found)
        if locked[name] != found[name]
    ]
    return problems


def fetch(*, write_lock: bool = False) -> None:
    """Download, verify and unpack everything, unless it is there already.

    Args:
        write_lock: Renew the lock by what comes, instead of verifying by it.

    Raises:
        BuildError: A download failed or is not what was locked.
    """
    stamp = DEPS / ".complete"
    with exclusively("fetch"):
        wanted = "\n".join(digest_file(path) for path in locked_files() if path.is_file())
        if not write_lock and stamp.is_file() and stamp.read_text() == wanted:
            return
        table = read_downloads()
        DEPS.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=".fetch-", dir=DEPS.parent))
        try:
            say("fetching the build's downloads (2 minutes and 700 MB the first time)")
            _fetch_maven(table["maven"], folder)
            _fetch_npm(table["npm"], folder)
            found = {
                str(path.relative_to(folder)): digest_file(path)
                for kind in ("maven", "npm")
                for path in sorted((folder / kind).rglob("*"))
                if path.is_file()
            }
            if write_lock:
                content = {"about": "SHA-256 of every downloaded file; `fetch --write-lock` renews it", "files": found}
                LOCK_FILE.write_text(json.dumps(content, indent=1) + "\n")
                wanted = "\n".join(digest_file(path) for path in locked_files())
            problems = compare_with_lock(found, read_lock())
            if problems:
                raise BuildError("downloads differ from lock.json:\n  " + "\n  ".join(problems))
            _unpack(table["npm"], folder)
            shutil.rmtree(DEPS, ignore_errors=True)
            folder.rename(DEPS)
            stamp.write_text(wanted)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _fetch_maven(purposes: dict[str, list[str]], folder: Path) -> None:
    """Copy the run-time dependencies of each purpose to `folder/maven/PURPOSE`: one Maven module for each."""
    project = folder / "project"
    for purpose, artifacts in purposes.items():
        dependencies = ""
        for artifact in artifacts:
            group, name, version, *kind = artifact.split(":")
            names = _NAMES.format(group, name, version)
            dependencies += f"<dependency>{names}<type>{kind[0] if kind else 'jar'}</type></dependency>"
        parent = f"<parent>{_NAMES.format('litenlp', 'downloads', '1')}</parent>"
        module = f"{parent}<artifactId>{purpose}</artifactId><dependencies>{dependencies}</dependencies>"
        (project / purpose).mkdir(parents=True)
        (project / purpose / "pom.xml").write_text(_POM.format(module))
    modules = "".join(f"<module>{purpose}</module>" for purpose in purposes)
    whole = f"{_NAMES.format('litenlp', 'downloads', '1')}<packaging>pom</packaging><modules>{modules}</modules>"
    (project / "pom.xml").write_text(_POM.format(whole))
    options = ["-DincludeScope=runtime", "-DoutputDirectory=${project.basedir}/../../maven/${project.artifactId}"]
    run(["mvn", "--batch-mode", "--quiet", _COPY, *options], what="mvn", cwd=project)
    shutil.rmtree(project)
    shutil.rmtree(folder / "maven" / "downloads", ignore_errors=True)


def _fetch_npm(packages: dict[str, dict[str, Any]], folder: Path) -> None:
    """Download the packages' archives to `folder/npm`, without running their code."""
    (folder / "npm").mkdir()
    for name, package in packages.items():
        what = f"{name}@{package['version']}"
        run(["npm", "pack", "--silent", "--ignore-scripts", what], what=f"npm pack {what}", cwd=folder / "npm")


def _unpack(packages: dict[str, dict[str, Any]], folder: Path) -> None:
    """Unpack the named files of npm's archives, and the classes and libraries of Android's .aar files."""
    for name, package in packages.items():
        flat = name.lstrip("@").replace("/", "-")
        archive = folder / "npm" / f"{flat}-{package['version']}.tgz"
        target = folder / "unpacked" / flat
        with tarfile.open(archive) as tar:
            for wanted in package["unpack"]:
                prefix = f"package/{wanted}"
                members = [m for m in tar.getmembers() if m.name == prefix or m.name.startswith(prefix + "/")]
                if not members:
                    raise BuildError(f"{archive.name}: expected {prefix}, found nothing of that name")
                for member in members:
                    member.name = member.name.removeprefix("package/")
                    tar.extract(member, target, filter="data")
    for aar in sorted((folder / "maven").rglob("*.aar")):
        with zipfile.ZipFile(aar) as archive_file:
            aar.with_suffix(".jar").write_bytes(archive_file.read("classes.jar"))
            libraries = [name for name in archive_file.namelist() if re.fullmatch(r"jni/[^/]+/[^/]+\.so", name)]
            for library in libraries:
                archive_file.extract(library, folder / "unpacked" / aar.name.split("-")[0])
