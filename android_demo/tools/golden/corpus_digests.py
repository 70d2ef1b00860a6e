"""Digests of the token ids that the Python tokenizer gives to every line of a folder of text files.

``CorpusTest`` of the Kotlin core compares its own ids with these digests. Run from the repository:
``PYTHONPATH=android_demo python -m tools.golden.corpus_digests FOLDER [--out FILE]``.
"""

import argparse
import gzip
import hashlib
import json
import sys
from pathlib import Path
from typing import Any, Final

from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.lines import read_file_lines

__all__ = ["DIGESTS", "corpus_digests", "main"]

_RESOURCES: Final = Path(__file__).parents[2] / "core" / "src" / "test" / "resources"

#: Digests of the corpora that the project is measured on.
DIGESTS: Final = _RESOURCES / "corpora.json"

#: The shipped tokenizer, and one that uses all that a tokenizer may do to the text.
_TOKENIZERS: Final = ("shipped", "nfkc-lower")

_SUFFIXES: Final = (".gz", ".tsv", ".txt")


def corpus_digests(folder: Path) -> list[dict[str, Any]]:
    """One entry per text file and tokenizer.

    Args:
        folder: Searched for files .gz, .tsv and .txt, folders in it too.

    Returns:
        Entries with ``file`` (path in the folder), ``tokenizer``, ``lines``, ``tokens``, and ``ids_sha256``: SHA-256 of
        the ids as decimal numbers, joined by spaces, each line of text ending with a line feed.
    """
    tokenizers = {name: _tokenizer(name) for name in _TOKENIZERS}
    files = sorted(path for path in folder.rglob("*") if path.suffix in _SUFFIXES and path.is_file())
    return [
        {"file": path.relative_to(folder).as_posix(), "tokenizer": name, **_digest(path, tokenizer)}
        for path in files
        for name, tokenizer in tokenizers.items()
    ]


def main() -> None:
    """Write the digests of a folder of corpora."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="searched for files .gz, .tsv and .txt")
    parser.add_argument("--out", type=Path, metavar="FILE", default=DIGESTS)
    arguments = parser.parse_args()
    entries = corpus_digests(arguments.folder)
    if not entries:
        sys.exit(f"{arguments.folder}: expected text files {', '.join(_SUFFIXES)}, found none")
    rows = ",\n ".join(json.dumps(entry) for entry in entries)
    arguments.out.write_text(f"[{rows}]\n", encoding="ascii")


def _tokenizer(name: str) -> Tokenizer:
    return Tokenizer.from_json(gzip.decompress((_RESOURCES / "golden" / f"tokenizer-{name}.json.gz").read_bytes()))


def _digest(path: Path, tokenizer: Tokenizer) -> dict[str, Any]:
    lines = read_file_lines(path)
    digest = hashlib.sha256()
    tokens = 0
    for ids in tokenizer.encode_batch(lines):
        tokens += len(ids)
        digest.update((" ".join(map(str, ids)) + "\n").encode("ascii"))
    return {"lines": len(lines), "tokens": tokens, "ids_sha256": digest.hexdigest()}


if __name__ == "__main__":
    main()
