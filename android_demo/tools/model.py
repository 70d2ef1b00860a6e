"""The shipped model as a compact bundle: what the app comes with, and what its tests run."""

import json
import sys
from pathlib import Path

from tools.errors import BuildError
from tools.layout import BUILD, ROOT
from tools.processes import run, say
from tools.steps import list_files, run_step

__all__ = ["MODEL", "existing_model", "export_model"]

MODEL = "tatoeba-en-de"
# What decides the bundle's bytes. Exporting takes a minute, so it is not done again for changes elsewhere.
_INPUTS = [
    "compress",
    "export",
    "lite_nlp/assets/tatoeba-en-de.json",
    "lite_nlp/assets/tatoeba-en-de.zip",
    "lite_nlp/budget",
    "lite_nlp/artifacts",
    "lite_nlp/data/tokenizer.py",
    "lite_nlp/data/vocabulary.py",
    "lite_nlp/models",
    "constraints.txt",
]
_BUNDLE = BUILD / f"{MODEL}.zip"


def existing_model() -> Path:
    """The bundle that was exported last, whatever has changed since; exported where there is none.

    Raises:
        BuildError: The export failed.
    """
    return _BUNDLE if _BUNDLE.is_file() else export_model()


def export_model() -> Path:
    """Export the model, unless it was exported from the same code.

    Returns:
        The bundle.

    Raises:
        BuildError: The export failed.
    """
    inputs = list_files(*(ROOT / name for name in _INPUTS))

    def make(path: Path) -> None:
        say(f"exporting {MODEL} as a compact bundle (a minute or more)")
        # The exporter wants a name that ends so.
        bundle = path.with_suffix(".zip")
        bundle.unlink(missing_ok=True)
        program = [sys.executable, "-c", "from lite_nlp.cli.main import main; main()"]
        options = ["export", MODEL, "--compact", "--json", "--out", str(bundle)]
        said = run([*program, *options], what="lite-nlp export --compact", cwd=ROOT, env={"OMP_NUM_THREADS": "1"})
        if not bundle.is_file():
            raise BuildError(f"lite-nlp export: expected it to write {bundle}, found nothing:\n{json.dumps(said)}")
        bundle.rename(path)

    run_step(_BUNDLE, inputs, {}, make)
    return _BUNDLE
