"""``lite-nlp`` in one of several processes, writing down which training rows the process read and its last threads.

Usage: training_worker.py ROWS_PREFIX ARGUMENTS_OF_LITE_NLP...
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from lite_nlp.cli.main import main
from lite_nlp.data.pairs.storage import Split

rows: list[list[int]] = []
read_tokens = Split.tokens


def read_and_note(split: Split, indices: Any) -> Any:
    if split.name == "train":
        rows.append(indices.tolist())
    return read_tokens(split, indices)


if __name__ == "__main__":
    prefix, sys.argv[1:] = sys.argv[1], sys.argv[2:]
    Split.tokens = read_and_note  # type: ignore[method-assign]
    try:
        main()
    finally:
        threads = [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]
        noted = {"rows": rows, "threads": threads}
        Path(f"{prefix}{os.environ.get('RANK', '0')}.json").write_text(json.dumps(noted), encoding="utf-8")
