"""A teacher's translations of a training split, kept on the disk while they are made, and for other students.

``hypotheses.json`` says what they were made of; ``hypotheses.partial.jsonl`` grows by whole batches while they are
made, and becomes ``hypotheses.jsonl``, sorted by row, when all are there.
"""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from lite_nlp.core.errors import DataError, OutputError
from lite_nlp.core.files import sha256_file, write_text
from lite_nlp.core.locks import held_directory
from lite_nlp.core.outputs import check_shared_directory, refusals
from lite_nlp.core.parsing import parse_json_object, read_document
from lite_nlp.decoding.translate import Alternative

__all__ = ["Hypotheses", "HypothesisStore", "SourceHypotheses", "check_hypotheses"]

_DOCUMENT: Final = "hypotheses.json"
_LINES: Final = "hypotheses.jsonl"
_PARTIAL: Final = "hypotheses.partial.jsonl"

_SCHEMA_VERSION: Final = 1

#: Seconds between two looks of a process that waits for the first one.
_LOOK_SECONDS: Final = 1.0


class SourceHypotheses(NamedTuple):
    """The hypotheses for one source.

    Attributes:
        row: Its number in the split.
        alternatives: The best by the search's score first; none for a source that the teacher cannot take whole.
    """

    row: int
    alternatives: list[Alternative]


#: The hypotheses of a whole split, by row.
Hypotheses = list[list[Alternative]]


def check_hypotheses(path: Path) -> None:
    """Check that a teacher's translations may be in a directory; nothing of the check stays on the disk.

    Raises:
        OutputError: If it holds something else, or the system refuses.
    """
    check_shared_directory(path)
    with refusals(path):
        if path.is_dir() and any(path.iterdir()) and not (path / _DOCUMENT).exists():
            raise OutputError(
                f"{path}: expected a new directory or one of a teacher's translations, found other files and no "
                f"{_DOCUMENT}; name a new directory in it"
            )


class HypothesisStore:
    """The directory of a teacher's translations.

    Args:
        path: The directory; it need not exist yet.
        identity: Teacher, sources and search, as JSON values.
        rows: Rows of the split.
    """

    def __init__(self, path: Path, identity: Mapping[str, Any], *, rows: int) -> None:
        self.path = path
        self._identity = dict(identity)
        self._rows = rows

    @contextmanager
    def open(self, *, force: bool, resume: bool = False) -> Iterator[None]:
        """Make the directory, and hold it against other processes; one that remains empty is removed again.

        Args:
            force: Whether translations of another identity, or damaged ones, are removed.
            resume: Whether they are for a run that is resumed, for which ``force`` cannot be asked for.

        Raises:
            OutputError: If another process is at work in it, it holds something else, or the system refuses.
            DataError: If it holds translations of another identity, or damaged ones, and ``force`` is false.
        """
        with held_directory(self.path, taken="another process translates into this directory"):
            check_hypotheses(self.path)
            self._check_content(force=force, resume=resume)
            yield

    @property
    def complete(self) -> bool:
        """Whether all translations of this identity are there."""
        if not (self.path / _DOCUMENT).exists():
            return False
        document = self._document()
        return "sha256" in document and document.get("identity") == self._identity

    def find(self) -> Hypotheses | None:
        """All translations of this identity, by row; None if they are not all there, or damaged."""
        # The files may be replaced while they are read; what is wrong with damaged ones is told by ``open``.
        with suppress(DataError):
            if self.complete:
                return self.read()
        return None

    def wait(self) -> Hypotheses:
        """All translations, when another process has made them; one that fails ends its launcher, and so this one."""
        while (found := self.find()) is None:
            time.sleep(_LOOK_SECONDS)
        return found

    def read_partial(self) -> list[SourceHypotheses]:
        """What an earlier call has translated, in its order; a line that is cut off is removed from the file.

        Raises:
            OutputError: If the system refuses.
        """
        path = self.path / _PARTIAL
        found, end = [], 0
        with refusals(path):
            if not path.exists():
                return []
            with path.open("r+b") as file:
                for line in file:
                    try:
                        found.append(self._parse(line))
                    except DataError:
                        break
                    end += len(line)
                file.truncate(end)
        return found

    @contextmanager
    def appending(self) -> Iterator["Appender"]:
        """Context in which translations are added to those that :meth:`read_partial` has found."""
        document = json.dumps({"schema_version": _SCHEMA_VERSION, "identity": self._identity}, indent=2)
        if not (self.path / _DOCUMENT).exists():
            write_text(self.path / _DOCUMENT, document + "\n")
        with Appender(self.path / _PARTIAL) as appender:
            yield appender

    def finish(self, found: Sequence[SourceHypotheses]) -> None:
        """Put all translations, one for each row, in their place.

        Raises:
            OutputError: If the system refuses.
        """
        write_text(self.path / _LINES, "".join(map(_line, sorted(found))))
        content = {
            "schema_version": _SCHEMA_VERSION,
            "identity": self._identity,
            "rows": self._rows,
            "sha256": sha256_file(self.path / _LINES),
        }
        write_text(self.path / _DOCUMENT, json.dumps(content, indent=2) + "\n")
        (self.path / _PARTIAL).unlink(missing_ok=True)

    def read(self) -> Hypotheses:
        """The finished translations, by row.

        Raises:
            DataError: If they are damaged.
        """
        path = self.path / _LINES
        expected = self._document().get("sha256")
        try:
            found = sha256_file(path)
            if found != expected:
                raise DataError(f"{path}: damaged: expected SHA-256 {expected}, found {found}")
            with path.open("rb") as file:
                sources = [self._parse(line) for line in file]
        except OSError as error:
            raise DataError(f"{path}: expected a readable file, found: {error.strerror or error}") from error
        if [source.row for source in sources] != list(range(self._rows)):
            raise DataError(f"{path}: expected a line for each of {self._rows:,} sources, found {len(sources):,} lines")
        return [source.alternatives for source in sources]

    def _check_content(self, *, force: bool, resume: bool) -> None:
        if not (self.path / _DOCUMENT).exists():
            return
        try:
            found = self._document().get("identity")
            if found == self._identity:
                if self.complete:
                    self.read()
                return
            problem, advice = self._compare(found), "resume with the run's own options"
        except DataError as error:
            problem, advice = str(error), "remove this one"
        if not force:
            if not resume:
                advice = "--force makes them anew"
            raise DataError(f"{problem}; {advice}, or name another directory by --hypotheses")
        with refusals(self.path):
            # The document, without which the others are not known for what they are, comes last.
            for name in (_PARTIAL, _LINES, _DOCUMENT):
                (self.path / name).unlink(missing_ok=True)

    def _compare(self, found: object) -> str:
        """What is different in the identity of the translations that are there."""
        other = found if isinstance(found, dict) else {}
        keys = [
            key for key in sorted(other.keys() | self._identity.keys()) if other.get(key) != self._identity.get(key)
        ]
        here, there = (", ".join(f"{key} {facts.get(key)!r}" for key in keys) for facts in (self._identity, other))
        return (
            f"{self.path}: expected translations by this teacher, of this data, with these options ({here}), found "
            f"others ({there})"
        )

    def _document(self) -> dict[str, Any]:
        path = self.path / _DOCUMENT
        content = read_document(path, expected="the facts of a teacher's translations", error=DataError)
        return parse_json_object(content, source=str(path), error=DataError)

    def _parse(self, line: bytes) -> SourceHypotheses:
        source = f"{self.path}: a line of translations"
        if not line.endswith(b"\n"):
            raise DataError(f"{source}: expected a whole line, found a part of one")
        content = parse_json_object(line, source=source, error=DataError)
        row, texts, log_probs = (content.get(key) for key in ("row", "texts", "log_probs"))
        if not (
            isinstance(row, int)
            and 0 <= row < self._rows
            and isinstance(texts, list)
            and isinstance(log_probs, list)
            and len(texts) == len(log_probs)
            and all(isinstance(text, str) for text in texts)
            and all(isinstance(log_prob, float) for log_prob in log_probs)
        ):
            raise DataError(f"{source}: expected row, texts and log_probs, found others")
        return SourceHypotheses(row, [Alternative(*item) for item in zip(texts, log_probs, strict=True)])


class Appender:
    """A file of translations that grows by whole batches; a context.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with refusals(path):
            self._file = path.open("ab")

    def __enter__(self) -> "Appender":
        return self

    def __exit__(self, *error: object) -> None:
        # A full disk refuses what a failed write has left in the buffer once more.
        with suppress(OSError):
            self._file.close()

    def add(self, batch: Sequence[SourceHypotheses]) -> None:
        """Write a batch through to the system.

        Raises:
            OutputError: If the system refuses; the part that was written is removed when the file is next read.
        """
        try:
            self._file.write("".join(map(_line, batch)).encode("utf-8"))
            self._file.flush()
        except OSError as error:
            raise OutputError(f"{self._path}: could not be written: {error.strerror or error}") from error


def _line(source: SourceHypotheses) -> str:
    texts, log_probs = ([item[place] for item in source.alternatives] for place in range(2))
    return json.dumps({"row": source.row, "texts": texts, "log_probs": log_probs}, ensure_ascii=False) + "\n"
