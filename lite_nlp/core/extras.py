"""Optional dependencies: one error, with one sentence, for every package that is not installed."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final, Literal

from lite_nlp.core.errors import MissingExtraError

__all__ = ["EXTRAS", "Extra", "missing_package", "needs_extra"]

Extra = Literal["runtime", "train", "export"]

#: Packages by extra, as they are imported; each extra contains the ones above it. ``pyproject.toml`` says the same.
EXTRAS: Final[dict[Extra, tuple[str, ...]]] = {
    "runtime": ("onnxruntime", "tokenizers"),
    "train": (
        "accelerate",
        "defusedxml",
        "langcodes",
        "py3langid",
        "pyarrow",
        "rouge_score",
        "sacrebleu",
        "tensorboard",
        "torch",
    ),
    "export": ("executorch", "onnx", "onnxscript", "torch_pruning", "torchao"),
}
_LEVELS: Final = tuple(EXTRAS)


@contextmanager
def needs_extra(work: str, extra: Extra | None = None, *, whole: bool = True) -> Iterator[None]:
    """Context or decorator that turns a missing package into an error that says how to install it.

    Only packages of our own extras count. A module that is missing from an installed package, or from this one, is a
    broken installation, and stays what it is.

    Args:
        work: What needs the packages, such as the name of a command.
        extra: The extra that has them; None takes that of the missing package.
        whole: Whether all packages of ``extra`` are looked for before the work begins.

    Raises:
        MissingExtraError: In place of ``ModuleNotFoundError``.
    """
    if extra is not None and whole:
        absent = missing_package(extra)
        if absent is not None:
            raise _missing(work, extra, absent)
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        owner = next((level for level, packages in EXTRAS.items() if package in packages), None)
        if owner is None or _is_installed(package):
            raise
        raise _missing(work, max(owner, extra or owner, key=_LEVELS.index), package) from error


def missing_package(extra: Extra) -> str | None:
    """The first package of an extra, or of those that it contains, that is not installed."""
    levels = _LEVELS[: _LEVELS.index(extra) + 1]
    return next((name for level in levels for name in EXTRAS[level] if not _is_installed(name)), None)


def _is_installed(package: str) -> bool:
    return find_spec(package) is not None


def _missing(work: str, extra: Extra, package: str) -> MissingExtraError:
    name = f"lite-nlp[{extra}]"
    return MissingExtraError(
        f"{work}: needs the extra {name}, install it with pip install '{name}' ({package} is not installed)"
    )
