"""The runtime for boards, `pip install lite-nlp[runtime]`, on an emulated Cortex-A72.

Translates the everyday sentences there and on this machine: the wheel of ONNX Runtime may use no instruction that the
processor lacks, a bundle in fp32 gives the same text, one in int8 text of the same quality, and by about as many
instructions.
"""

import dataclasses
import shutil
import sys
from pathlib import Path

from lite_nlp.data.pairs.everyday import read_everyday_pairs
from tools.base.errors import BuildError
from tools.base.layout import BUILD, ROOT, SHIPPED_MODEL
from tools.base.processes import run, say
from tools.base.steps import run_step
from tools.testing.command import PROGRAM, package_sources
from tools.testing.emulation import PYTHON, emulate, unpack_programs
from tools.testing.instructions import check_counts, count_token
from tools.testing.int8 import export_int8

__all__ = ["Agreement", "check_agreement", "run_board_tests"]

_PLATFORMS = ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"]

# Sentences, of which one in int8 takes some seconds in the emulated processor.
_LINES = 200
# The processors round the products of int8 weights alike but for the order of sums: an input near the border between
# two levels falls to either side, and what follows may become another word.
_INT8_AGREEMENT, _INT8_LOSS = 0.8, 1.0


@dataclasses.dataclass(frozen=True)
class Agreement:
    """Translations in the emulated processor beside those of this machine.

    Attributes:
        precision: Of the bundle.
        lines: How many.
        same: How many are the same text.
        score: BLEU in the emulated processor.
        score_here: BLEU of this machine.
    """

    precision: str
    lines: int
    same: int
    score: float
    score_here: float


def run_board_tests() -> None:
    """Translate on both processors, and compare.

    Raises:
        BuildError: Debian's packages or the wheels cannot be had, or the texts differ more than they may.
    """
    root = unpack_programs()
    site = BUILD / "arm64-site"
    pins = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    run_step(site, [*package_sources(), *pins], {"platforms": _PLATFORMS, "python": PYTHON}, _install)
    bundles = {"fp32": SHIPPED_MODEL, "int8": export_int8()}
    pairs = read_everyday_pairs()[:_LINES]
    given = BUILD / "board-sources.txt"
    given.write_text("".join(f"{source}\n" for source, _ in pairs), encoding="utf-8")
    references = [target for _, target in pairs]
    here = [sys.executable, "-c", PROGRAM]
    there = [*emulate(root, PYTHON), "-c", PROGRAM]
    for precision, path in bundles.items():
        say(f"translating {len(pairs)} sentences in {precision}, on this machine and emulated")
        expected = _translate(here, path, given, site=None)
        found = _translate(there, path, given, site=site)
        agreement = _compare(precision, expected, found, references)
        print(
            f"{precision}: {agreement.same} of {agreement.lines} texts are the same, BLEU {agreement.score:.2f} on the"
            f" emulated processor, {agreement.score_here:.2f} on this machine"
        )
        check_agreement(agreement)
    counts = {precision: count_token(root, site, path) for precision, path in bundles.items()}
    for precision, count in counts.items():
        print(f"{precision}: {count / 1e6:.2f} million instructions of ONNX Runtime a token")
    check_counts(**counts)


def check_agreement(agreement: Agreement) -> None:
    """Refuse texts that differ more than they may.

    Raises:
        BuildError: In fp32 a text differs; in int8 too many do, or the quality does.
    """
    wanted = agreement.lines if agreement.precision == "fp32" else _INT8_AGREEMENT * agreement.lines
    if agreement.same < wanted:
        raise BuildError(
            f"{agreement.precision} on the emulated processor: expected {wanted:.0f} of {agreement.lines} texts as on"
            f" this machine, found {agreement.same}"
        )
    if agreement.score < agreement.score_here - _INT8_LOSS:
        raise BuildError(
            f"{agreement.precision} on the emulated processor: expected BLEU {agreement.score_here:.2f} or at most"
            f" {_INT8_LOSS} less, found {agreement.score:.2f}"
        )


def _install(site: Path) -> None:
    """Install the wheels of the runtime for arm64, and this project, to a folder."""
    say("fetching the runtime's wheels for arm64 (50 MB, once)")
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    site.mkdir()
    # Of a copy: a build leaves files beside its sources.
    copied, wheels = site / "sources", site / "wheels"
    shutil.copytree(ROOT / "lite_nlp", copied / "lite_nlp")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copied)
    run([*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, copied], what="pip wheel")
    (wheel,) = wheels.glob("*.whl")
    words: list[str | Path] = [
        "install",
        "--target",
        site,
        "--only-binary=:all:",
        "--constraint",
        ROOT / "constraints.txt",
    ]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    platforms = [word for platform in _PLATFORMS for word in ("--platform", platform)]
    run([*pip, *words, "--python-version", version, *platforms, f"{wheel}[runtime]"], what="pip install")


def _translate(command: list[str], bundle: Path, given: Path, *, site: Path | None) -> list[str]:
    output = given.with_name("board-outputs.txt")
    words = ["translate", str(bundle), "--runtime", "onnx", "--threads", "1", "--input", str(given)]
    # What this machine has for its own Python is not for the other's.
    env = {"PYTHONPATH": str(site)} if site else {}
    run([*command, *words, "--output", str(output), "--force"], what="translate", env=env)
    return output.read_text(encoding="utf-8").splitlines()


def _compare(precision: str, expected: list[str], found: list[str], references: list[str]) -> Agreement:
    # Needed for this alone.
    import sacrebleu

    same = sum(one == other for one, other in zip(expected, found, strict=True))
    scores = [sacrebleu.corpus_bleu(outputs, [references]).score for outputs in (found, expected)]
    return Agreement(precision, len(expected), same, *scores)
