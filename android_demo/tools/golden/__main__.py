"""Write the golden vectors: ``PYTHONPATH=android_demo python -m tools.golden``; ``--bundle`` adds the translations."""

import argparse
import gzip
import json
import sys
from pathlib import Path
from typing import Any, Final

from tools.golden.containers import container_vectors
from tools.golden.pieces import piece_vectors
from tools.golden.search import search_vectors
from tools.golden.tokenizers import character_tables, shipped_tokenizer, tokenizer_vectors, trained_tokenizers
from tools.golden.translations import translation_vectors

__all__ = ["CORE", "NATIVE", "main", "read_vectors"]

_ROOT: Final = Path(__file__).parents[2]

#: Vectors that need nothing but the Python package.
CORE: Final = _ROOT / "core" / "src" / "test" / "resources" / "golden"

#: Vectors that need the shipped model as a bundle.
NATIVE: Final = _ROOT / "native-tests" / "golden"


def main() -> None:
    """Write all vectors that can be made, and print the size of each file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--bundle", type=Path, metavar="FILE", help="fp32 bundle of the shipped model, from `lite-nlp export`"
    )
    bundle = parser.parse_args().bundle
    shipped, trained = shipped_tokenizer(), trained_tokenizers()
    _write(CORE / "tokenizer-shipped.json.gz", shipped.to_json())
    for name, tokenizer in trained.items():
        _write(CORE / f"tokenizer-{name}.json.gz", tokenizer.to_json())
    _write_vectors(CORE / "texts.json.gz", tokenizer_vectors({"shipped": shipped, **trained}))
    _write_vectors(CORE / "characters.json.gz", character_tables())
    _write_vectors(CORE / "pieces.json.gz", piece_vectors(shipped))
    _write_vectors(CORE / "search.json.gz", search_vectors())
    _write_vectors(CORE / "containers.json.gz", container_vectors())
    if bundle is not None:
        _write_vectors(NATIVE / "translations.json.gz", translation_vectors(bundle))


def read_vectors(path: Path) -> Any:
    """The content of a file of vectors."""
    return json.loads(gzip.decompress(path.read_bytes()))


def _write_vectors(path: Path, vectors: Any) -> None:
    # ASCII alone, so that lone surrogates can be told too.
    _write(path, json.dumps(vectors, separators=(",", ":"), allow_nan=False).encode("ascii"))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    compressed = gzip.compress(content, 9, mtime=0)
    path.write_bytes(compressed)
    print(f"{path.relative_to(_ROOT)}: {len(compressed):,} bytes", file=sys.stderr)


if __name__ == "__main__":
    main()
