"""The data directories that several experiments share, and the stages that prepare them."""

from collections.abc import Callable
from pathlib import Path

from rows import Place
from stages import Prepare, Stage

__all__ = ["CORPORA", "mnli", "multi30k", "multi30k_files", "tinyshakespeare"]


def multi30k(place: Place, *, types: int = 10_000) -> tuple[Path, list[Stage]]:
    """Lowercased and tokenized, as published; with a vocabulary of so many types."""
    data = place.runs / ("data-multi30k-lc" if types == 10_000 else f"data-multi30k-lc-{types}")
    files = multi30k_files(place, "train", "valid", "test")
    return data, [Prepare(out=data, arguments=["data", "prepare", *files, "--vocab-size", str(types)])]


def multi30k_files(place: Place, *splits: str) -> list[str]:
    """Options of ``data prepare`` for some splits, lowercased and tokenized."""
    folder = place.corpora / "multi30k"
    stems = {"train": "train", "valid": "val", "test": "test2016"}
    return [
        word
        for split in splits
        for word in (
            f"--{split}",
            *(str(folder / f"{stems[split]}.lc.norm.tok.{language}.gz") for language in ("en", "de")),
        )
    ]


def tinyshakespeare(place: Place) -> tuple[Path, list[Stage]]:
    """Running text, whose last parts are held out."""
    data = place.runs / "data-tinyshakespeare"
    text = str(place.corpora / "tinyshakespeare" / "input.txt.gz")
    return data, [Prepare(out=data, arguments=["data", "prepare", "--text", text, "--vocab-size", "1000"])]


def mnli(place: Place) -> tuple[Path, list[Stage]]:
    """The files have the label in their third column and a first line of names."""
    data = place.runs / "data-mnli"
    tables = {name: data.with_name(f"mnli-{name}.tsv") for name in ("train", "val")}
    stages: list[Stage] = [
        Stage(
            out=path,
            program=("sh", "-c"),
            arguments=[
                f"zcat {place.corpora}/mnli-20k/mnli_{name}.tsv.gz"
                f" | awk -F'\\t' -v OFS='\\t' 'NR > 1 {{print $3, $1, $2}}'"
                f" > {path}.partial && mv {path}.partial {path}"
            ],
        )
        for name, path in tables.items()
    ]
    files = ["--labelled", str(tables["train"]), "--valid-labelled", str(tables["val"])]
    return data, [*stages, Prepare(out=data, arguments=["data", "prepare", *files, "--vocab-size", "8000"])]


#: By name.
CORPORA: dict[str, Callable[[Place], tuple[Path, list[Stage]]]] = {
    "multi30k": multi30k,
    "tinyshakespeare": tinyshakespeare,
    "mnli": mnli,
}
