"""Commands and scripts that README and the docs show, and the directory that they are run in."""

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "fill_workspace", "page_commands", "run_page"]

ROOT = Path(__file__).parents[2]

#: What takes a reader half an hour, for as long as a test can wait. The time of an export goes with the layers, as that
#: of a compression does: the models of the pages have one a side, and the tutorial's target still asks for compression;
#: where the shipped model is exported or measured, one with as few takes its place.
_SHORTER = {
    r"--max-minutes \d+": "--max-minutes 0.1",
    r"--finetune-steps \d\d+": "--finetune-steps 2",
    "^make demo": "make demo DEMO_COMPRESS='--finetune-steps 2'",
    "train mobile-small ": "train mobile-small --set model.num_encoder_layers=1 --set model.num_decoder_layers=1"
    " --set 'model.kernel_sizes=[3]' --set 'model.decoder_kernel_sizes=[3]' ",
    "(train|runs/language-model) tinyshakespeare-transformer ": r"\1 tinyshakespeare-transformer"
    " --set model.num_decoder_layers=1 --set model.max_positions=512 ",
    "train r2d2-sva-8 ": "train r2d2-sva-8 --set model.num_encoder_layers=1 ",
    "train mobile-tiny ": "train mobile-tiny --set model.num_encoder_layers=1 --set model.num_decoder_layers=1"
    " --set 'model.kernel_sizes=[3]' --set 'model.decoder_kernel_sizes=[3]' ",
    "export --out ": "export runs/first --out ",
    "bench --runtime ": "bench runs/everyday --runtime ",
}

#: Shown so often that every page must have at least this many commands.
_FEWEST = 3


@dataclass(frozen=True)
class PageCommand:
    text: str
    exit_code: int


def page_commands(page: str) -> Iterator[PageCommand]:
    """The lines of the page's ``bash`` blocks; a block headed ``bash not-run`` needs what a test cannot have."""
    for block in re.findall(
        r"^```bash\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in block.replace("\\\n", " ").splitlines():
            if line.strip():
                stated = re.search(r"# exits with (\d+)", line)
                yield PageCommand(line, int(stated[1]) if stated else 0)


def fill_workspace(path: Path) -> None:
    """The files that the pages take for granted: corpora as the reader would have them, made of our own sentences."""
    pairs = (ROOT / "lite_nlp" / "assets" / "everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
    sides = dict(zip(("en", "de"), zip(*(pair.split("\t") for pair in pairs), strict=True), strict=True))
    (path / "copies" / "tatoeba").mkdir(parents=True)
    parts = {"train": slice(0, 250), "valid": slice(250, 270), "test": slice(300, 312)}
    parts |= {"copies/tatoeba/train": slice(0, 250), "copies/tatoeba/valid": slice(250, 270)}
    parts |= {"copies/tatoeba/test": slice(300, 312), "more": slice(330, 400)}
    for name, rows in parts.items():
        for language, lines in sides.items():
            (path / f"{name}.{language}").write_text("\n".join(lines[rows]) + "\n", encoding="utf-8")
    articles = [" ".join(sides["en"][start : start + 8]) for start in range(60)]
    (path / "news.article").write_text("\n".join(articles) + "\n", encoding="utf-8")
    (path / "news.highlights").write_text("\n".join(sides["en"][:60]) + "\n", encoding="utf-8")
    (path / "pairs.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    attribution = "CC-BY 2.0 (France) Attribution: tatoeba.org #1 & #2"
    (path / "deu.txt").write_text("".join(f"{pair}\t{attribution}\n" for pair in pairs), encoding="utf-8")
    (path / "english.txt").write_text("\n".join(sides["en"][:12]) + "\n", encoding="utf-8")
    (path / "english.txt.gz").write_bytes(gzip.compress((path / "english.txt").read_bytes()))
    (path / "german.txt").write_text("\n".join(sides["de"][:12]) + "\n", encoding="utf-8")
    training = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (small,) = re.findall(r"^```toml\n(.*?)^```", training, re.DOTALL | re.MULTILINE)
    (path / "small.toml").write_text(small, encoding="utf-8")


def run_page(page: str, *, workspace: Path, commands: Path) -> None:
    """Run a page's commands, each of which must end with the exit code that the page states.

    Args:
        page: Its path from the root.
        workspace: Where they are run; ``make`` and the activation of its environment at the root.
        commands: The directory of the ``lite-nlp`` to run.
    """
    shown = list(page_commands(page))
    assert len(shown) >= _FEWEST, page
    for command in shown:
        text = command.text
        if text.startswith("make test"):
            # This very run; that the target starts it is all there is to check. With -q, grep would close make's pipe.
            text += " --dry-run | grep 'python -m pytest' > /dev/null"
        for figure, shorter in _SHORTER.items():
            text = re.sub(figure, shorter, text)
        done = subprocess.run(
            ["/bin/bash", "-o", "pipefail", "-c", text],
            cwd=ROOT if text.startswith(("make ", ". .venv")) else workspace,
            env=os.environ | {"PATH": f"{commands}:{Path(sys.executable).parent}:{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == command.exit_code, f"{page}: {command.text}\n{done.stdout}\n{done.stderr}"
