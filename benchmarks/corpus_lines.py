r"""Write a corpus of ``../shared/data`` in a form that ``data prepare`` reads: labelled lines, or JSON lines of pairs.

    python benchmarks/corpus_lines.py TABLE.tsv.gz --label label --texts sentence1,sentence2 --out EXAMPLES.tsv
    python benchmarks/corpus_lines.py TABLE.tsv.gz --no-header --label 3 --texts 1,2 --labels 0=entailment,1=neutral,\
2=contradiction --out EXAMPLES.tsv
    python benchmarks/corpus_lines.py DIALOGUES.csv.gz --pair dialogue,summary --out PAIRS.jsonl

Columns are named by the first line, or by their number from 1 with ``--no-header``. A file whose name has ``.csv`` has
commas and quoted fields, in which a line break becomes a space; others have tabs and no quotes.
"""

import argparse
import csv
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

from lite_nlp.core.files import write_text

__all__ = ["main"]


def rows(path: Path, *, header: bool) -> Iterator[dict[str, str]]:
    """The rows of a table, by the names of its columns or their numbers from 1."""
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        quoted = ".csv" in path.suffixes
        found = csv.reader(file) if quoted else csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        names = next(found) if header else None
        for number, row in enumerate(found, start=1):
            columns = names or [str(column) for column in range(1, len(row) + 1)]
            if len(row) != len(columns):
                raise SystemExit(f"{path}: row {number}: expected {len(columns)} columns, found {len(row)}")
            yield dict(zip(columns, (" ".join(cell.split()) for cell in row), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", type=Path, help=".csv.gz or .tsv.gz")
    parser.add_argument("--no-header", action="store_true", help="the first line is an example")
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--label", metavar="COLUMN", help="write label, tab, text (tab, text)")
    kind.add_argument("--pair", metavar="SRC,TGT", help='write {"src": ..., "tgt": ...}')
    parser.add_argument("--texts", metavar="COLUMN[,COLUMN]", default="", help="the texts beside --label")
    parser.add_argument("--labels", metavar="OLD=NEW,...", default="", help="other names of the labels")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    names = dict(entry.split("=") for entry in options.labels.split(",") if entry)
    columns = (options.pair or options.texts).split(",")
    if not options.table.is_file():
        parser.error(f"expected a table, found none: {options.table}")
    lines = []
    for row in rows(options.table, header=not options.no_header):
        missing = [column for column in columns if column not in row]
        if missing:
            parser.error(f"{options.table}: expected a column {missing[0]!r}, found {', '.join(row)}")
        texts = [row[column] for column in columns]
        if options.pair:
            lines.append(json.dumps(dict(zip(("src", "tgt"), texts, strict=True)), ensure_ascii=False))
        else:
            lines.append("\t".join([names.get(row[options.label], row[options.label]), *texts]))
    write_text(options.out, "".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
