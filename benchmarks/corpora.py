"""The data directories that several experiments share, and the stages that prepare them."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rows import Place
from stages import Prepare, Stage

__all__ = [
    "CORPORA",
    "inference",
    "mnli",
    "multi30k",
    "multi30k_files",
    "samsum",
    "sentiment",
    "tinyshakespeare",
    "wikitext",
]


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
    """The part of MultiNLI alone."""
    data = place.runs / "data-mnli"
    tables = {name: place.corpora / "mnli-20k" / f"mnli_{name}.tsv.gz" for name in ("train", "val")}
    stages = {name: _lines(place, f"mnli-{name}.tsv", table, *_MNLI) for name, table in tables.items()}
    files = ["--labelled", str(stages["train"].out), "--valid-labelled", str(stages["val"].out)]
    return data, [*stages.values(), Prepare(out=data, arguments=["data", "prepare", *files, "--vocab-size", "8000"])]


def inference(place: Place) -> tuple[Path, list[Stage]]:
    """The part of MultiNLI and SNLI's dev, in lower case as the latter is; tested on SNLI's test."""
    _, (train, valid, _) = mnli(place)
    snli = {
        name: _lines(place, f"snli-{name}.tsv", place.corpora / "snli-devtest" / f"{name}.txt.gz", *_SNLI)
        for name in ("dev", "test")
    }
    data = place.runs / "data-inference"
    files = ["--labelled", str(train.out), "--labelled", str(snli["dev"].out)]
    files += ["--valid-labelled", str(valid.out), "--test-labelled", str(snli["test"].out)]
    options = ["--vocab-size", "8000", "--lowercase"]
    return data, [train, valid, *snli.values(), Prepare(out=data, arguments=["data", "prepare", *files, *options])]


def sentiment(place: Place) -> tuple[Path, list[Stage]]:
    """SST-2, tested on its dev, since the labels of its test are not public; validated on a part of its train."""
    data = place.runs / "data-sst-2"
    columns = ["--label", "label", "--texts", "sentence", "--labels", "0=negative,1=positive"]
    stages = {
        name: _lines(place, f"sst-2-{name}.tsv", place.corpora / "sst-2" / f"{name}.tsv.gz", *columns)
        for name in ("train", "dev")
    }
    files = ["--labelled", str(stages["train"].out), "--test-labelled", str(stages["dev"].out)]
    options = ["--valid-pairs", "1000", "--vocab-size", "8000"]
    return data, [*stages.values(), Prepare(out=data, arguments=["data", "prepare", *files, *options])]


def wikitext(place: Place) -> tuple[Path, list[Stage]]:
    """WikiText-2, words as published."""
    data, folder = place.runs / "data-wikitext-2", place.corpora / "wikitext-2"
    splits = {"--text": "train", "--valid-text": "valid", "--test-text": "test"}
    files = [word for option, split in splits.items() for word in (option, str(folder / f"{split}.txt.gz"))]
    return data, [Prepare(out=data, arguments=["data", "prepare", *files, "--vocab-size", "8000"])]


def samsum(place: Place) -> tuple[Path, list[Stage]]:
    """SAMSum's dialogues and their summaries."""
    data = place.runs / "data-samsum"
    splits = {"--jsonl": "train", "--valid-file": "validation", "--test-file": "test"}
    stages = {
        option: _lines(
            place,
            f"samsum-{split}.jsonl",
            place.corpora / "samsum" / f"{split}.csv.gz",
            *("--pair", "dialogue,summary"),
        )
        for option, split in splits.items()
    }
    files = [word for option, stage in stages.items() for word in (option, str(stage.out))]
    options = ["--task", "summarization", "--src-lang", "en", "--tgt-lang", "en", "--vocab-size", "8000"]
    return data, [*stages.values(), Prepare(out=data, arguments=["data", "prepare", *files, *options])]


_MNLI: Final = ("--label", "label", "--texts", "sentence1,sentence2")
_SNLI: Final = (
    *("--no-header", "--label", "3", "--texts", "1,2"),
    *("--labels", "0=entailment,1=neutral,2=contradiction"),
)


def _lines(place: Place, name: str, table: Path, *options: str) -> Stage:
    """The stage that writes a table as lines for ``data prepare``."""
    out, script = place.runs / name, str(Path(__file__).with_name("corpus_lines.py"))
    return Stage(out=out, program=(sys.executable, script), arguments=[str(table), *options, "--out", str(out)])


#: By name.
CORPORA: dict[str, Callable[[Place], tuple[Path, list[Stage]]]] = {
    "multi30k": multi30k,
    "tinyshakespeare": tinyshakespeare,
    "mnli": mnli,
}
