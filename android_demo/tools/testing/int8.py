"""A bundle of the shipped model in int8, and what Python's runtimes make of it, for tests of the app's libraries."""

import json
import sys
from pathlib import Path

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.export.runtime import create_engine
from tools.base.layout import BUILD, SHIPPED_MODEL
from tools.base.processes import run, say
from tools.base.steps import run_step
from tools.sdk import list_operators
from tools.testing.command import PROGRAM, package_sources

__all__ = ["export_int8", "write_int8_vectors"]

_FOLDER, _NAME = BUILD / "shipped-int8", "model.zip"

# Lines, which both runtimes of the app translate one by one; emulated, a fraction of them.
_LINES = 200


def export_int8() -> Path:
    """The shipped model's bundle in int8; exported once.

    Raises:
        BuildError: The export failed.
    """
    run_step(_FOLDER, [*package_sources(), SHIPPED_MODEL], {}, _export)
    return _FOLDER / _NAME


def _export(folder: Path) -> None:
    say("exporting the shipped model in int8")
    folder.mkdir()
    # What a test asks for is agreement with Python; on so few sentences as an export scores, a loss is mostly chance.
    words = ["export", str(SHIPPED_MODEL), "--precision", "int8", "--max-loss", "1", "--out", str(folder / _NAME)]
    run([sys.executable, "-c", PROGRAM, *words], what="export")


def write_int8_vectors(bundle_path: Path, path: Path) -> None:
    """Write the token ids of everyday sentences, those of their translations by runtime, and the program's operators.

    The app's runtimes are of other versions, and an emulated processor has other products of small integers: an input
    near the border between two of their levels may become another word. So not all lines need to have these tokens.
    """
    bundle = open_any_bundle(bundle_path)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    sources = [tokenizer.encode(source) for source, _ in read_everyday_pairs()[:_LINES]]
    translations = {}
    for runtime in ("onnx", "executorch"):
        engine = create_engine(bundle, runtime=runtime, threads=1)
        options = SearchOptions(max_steps=engine.max_steps)
        translations[runtime] = [search(engine, [source], options)[0].tokens for source in sources]
    program = bundle.read(bundle.manifest.runtimes["executorch"].members[0])
    vectors = {
        "precision": bundle.manifest.precision,
        "sources": sources,
        "translations": translations,
        "operators": list_operators(program),
    }
    path.write_text(json.dumps(vectors), encoding="utf-8")
