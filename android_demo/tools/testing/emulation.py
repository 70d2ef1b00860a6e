"""A phone's processor, emulated: qemu and arm64 programs of Debian in a folder of the build.

Nothing is installed. apt verifies what it downloads by Debian's signatures.
"""

import shutil
import sys
from pathlib import Path

from tools.base.layout import BUILD
from tools.base.processes import run, say
from tools.base.steps import run_step

__all__ = ["JAVA", "PYTHON", "emulate", "unpack_programs"]

# The processor that the product is made for: an instruction that it lacks ends the process.
_PROCESSOR = "cortex-a72"
_QEMU = "qemu-user"
# A release whose own qemu, of version 7.2, ends when it loads the wheel of ONNX Runtime; its backports have version 10.
_OLD_QEMU = "bookworm"

_PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
# Programs in the folder.
JAVA, PYTHON = "usr/lib/jvm/java-17-openjdk-arm64/bin/java", f"usr/bin/{_PYTHON}"
_PACKAGES = [
    # What the Java virtual machine loads when it draws nothing, and the headers of the C library.
    *("openjdk-17-jre-headless", "libc6", "libc6-dev", "linux-libc-dev", "libgcc-s1", "libstdc++6", "zlib1g"),
    # An interpreter of Python, and what its modules and the runtime's wheels load.
    *(f"{_PYTHON}-minimal", f"lib{_PYTHON}-minimal", f"lib{_PYTHON}-stdlib"),
    *("libbz2-1.0", "libcrypt1", "libexpat1", "libffi8", "libgomp1", "liblzma5", "libuuid1"),
]


def unpack_programs() -> Path:
    """A folder with Java and Python for arm64 and a qemu that runs them; downloaded once.

    Raises:
        BuildError: They cannot be had.
    """
    root = BUILD / "arm64"
    run_step(root, [Path(__file__)], {"packages": [_QEMU, *_PACKAGES]}, _unpack)
    return root


def emulate(root: Path, program: str) -> list[str]:
    """Beginning of a command line that runs a program of the folder on the emulated processor."""
    return [str(root / "usr/bin/qemu-aarch64"), "-cpu", _PROCESSOR, "-L", str(root), str(root / program)]


def _unpack(root: Path) -> None:
    """Unpack the packages to a folder, by package lists of its own: the machine's lack arm64."""
    root.mkdir()
    state = root / "apt"
    (state / "lists" / "partial").mkdir(parents=True)
    (state / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    here = run(["dpkg", "--print-architecture"], what="dpkg").strip()
    own = Path("/etc/apt/sources.list")
    sources = state / "sources.list"
    sources.write_text((own.read_text() if own.is_file() else "") + _backports())
    options = [
        f"APT::Architectures::={here}",
        "APT::Architectures::=arm64",
        "APT::Sandbox::User=",
        "Debug::NoLocking=1",
        f"Dir::State={state}",
        f"Dir::State::status={state / 'status'}",
        f"Dir::Cache={state}",
        f"Dir::Etc::sourcelist={sources}",
    ]
    apt = ["apt-get", "-qq", *(word for option in options for word in ("-o", option))]
    say(f"fetching qemu and {len(_PACKAGES)} packages for arm64 (130 MB, once)")
    run([*apt, "update"], what="apt-get update")
    qemu = f"{_QEMU}:{here}" + (f"/{_OLD_QEMU}-backports" if _is_old() else "")
    run([*apt, "download", qemu, *(f"{name}:arm64" for name in _PACKAGES)], what="apt-get download", cwd=state)
    for package in sorted(state.glob("*.deb")):
        run(["dpkg", "-x", package, root], what=f"dpkg -x {package.name}")
    shutil.rmtree(state)


def _is_old() -> bool:
    return f"VERSION_CODENAME={_OLD_QEMU}\n" in Path("/etc/os-release").read_text()


def _backports() -> str:
    """A source of the backports, at the place that the release itself comes from; empty where they are not needed."""
    if not _is_old():
        return ""
    wanted = ["Created-By: Packages", f"Codename: {_OLD_QEMU}"]
    targets = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted], what="apt-get indextargets")
    uri = targets.split()[0] if targets.split() else ""
    key = "/usr/share/keyrings/debian-archive-keyring.gpg"
    return f"deb [signed-by={key}] {uri} {_OLD_QEMU}-backports main\n" if uri else ""
