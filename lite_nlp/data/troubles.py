"""The count of the lines of a split that cannot be used: examples, and what to do where most cannot."""

import json
from collections import Counter
from typing import IO, Any, Final

from lite_nlp.core.display import displayable
from lite_nlp.core.errors import DataError
from lite_nlp.data.choices import SplitName
from lite_nlp.data.directory import SkippedLine, SkippedLines
from lite_nlp.data.sources import BadLine, ItemSource, Reason

__all__ = ["Tally", "excerpt"]

#: Line numbers kept in data.json for each reason; bad_lines.jsonl has all.
_FIRST_LINES: Final = 10

#: Lines kept with their text for each reason.
_EXAMPLES: Final = 3

#: Characters of a line that are shown.
_EXCERPT_CHARACTERS: Final = 80


def excerpt(text: bytes | str) -> str:
    """The beginning of ``text``, in which everything that a terminal would not print as it is is escaped."""
    start = text[: 4 * _EXCERPT_CHARACTERS]
    characters = start.decode("utf-8", "backslashreplace") if isinstance(start, bytes) else start
    shown = characters[:_EXCERPT_CHARACTERS] + ("..." if len(characters) > _EXCERPT_CHARACTERS else "")
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in shown
    )


class Tally:
    """Counts the bad lines of a split and writes each to the report file, if there is one.

    Attributes:
        complete: Whether all sources were read to their end and had a usable line.
    """

    def __init__(self, split: SplitName, contents: str, file: IO[str] | None = None) -> None:
        """Count nothing yet.

        Args:
            split: The split that the lines belong to.
            contents: Name of its items in messages.
            file: Where each bad line is listed, as JSON lines.
        """
        self.complete = False
        self._split = split
        self._contents = contents
        self._file = file
        self._first: dict[Reason, list[str]] = {}
        self._examples: dict[Reason, list[SkippedLine]] = {}
        #: For each source, the bad lines by reason and the number of usable ones.
        self._bad: list[Counter[Reason]] = []
        self._usable: list[int] = []
        self._sources: list[ItemSource[Any]] = []

    def begin(self, source: ItemSource[Any]) -> None:
        """Count the lines of ``source`` from here on."""
        self._sources.append(source)
        self._bad.append(Counter())
        self._usable.append(0)

    def add_usable(self) -> None:
        """Count a line that can be used."""
        self._usable[-1] += 1

    def add(self, bad: BadLine) -> None:
        """Count and report a line that cannot be used."""
        # The name goes into files in UTF-8, which cannot hold the stray bytes of one.
        file = displayable(bad.file)
        self._bad[-1][bad.reason] += 1
        first = self._first.setdefault(bad.reason, [])
        if len(first) < _FIRST_LINES:
            first.append(f"{file}:{bad.line}")
        examples = self._examples.setdefault(bad.reason, [])
        if len(examples) < _EXAMPLES:
            examples.append(SkippedLine(file=file, line=bad.line, text=excerpt(bad.text)))
        if self._file is not None:
            entry = {"split": self._split, "file": file, "line": bad.line, "reason": bad.reason}
            self._file.write(json.dumps(entry, ensure_ascii=False) + "\n")

    @property
    def counts(self) -> Counter[Reason]:
        """Bad lines by reason."""
        return sum(self._bad, Counter())

    def skipped(self) -> dict[str, SkippedLines]:
        """The counts by reason, with the first lines of each."""
        advice = self._advice()
        return {
            reason: SkippedLines(
                count=count,
                first=self._first[reason],
                examples=self._examples[reason],
                advice=advice.get(reason),
            )
            for reason, count in sorted(self.counts.items())
        }

    def nothing_usable(self) -> DataError:
        """The error of a split without an item."""
        counts = self.counts
        listed = ", ".join(f"{counts[reason]:,} {reason}" for reason in sorted(counts)) or "none"
        return DataError(
            f"{self._split}: expected {self._contents}, found none (lines skipped: {listed}){self.explanation()}"
        )

    def explanation(self) -> str:
        """What to do about sources of which most lines were skipped, with examples; empty if there is none."""
        lines = []
        for reason, advice in self._advice().items():
            lines.append(advice)
            lines += [f"  {example.place}: {example.text}" for example in self._examples[reason]]
        return "".join(f"\n{line}" for line in lines)

    def _advice(self) -> dict[Reason, str]:
        """For the reasons that dropped most lines of a source, what to do."""
        found: dict[Reason, str] = {}
        for source, bad, usable in zip(self._sources, self._bad, self._usable, strict=True):
            if bad.total() <= usable:
                continue
            reason, count = bad.most_common(1)[0]
            found.setdefault(
                reason,
                f"{source.name}: {count:,} of {bad.total() + usable:,} lines skipped, {reason}: "
                f"{source.advise(reason)}",
            )
        return found
