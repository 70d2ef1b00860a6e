"""What a compact bundle describes is made in bounded memory, and kept on the disk when it is much."""

import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import pytest

from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.core.errors import BundleError
from lite_nlp.core.files import sha256_bytes
from lite_nlp.export.runtime import made_members
from lite_nlp.export.runtime.limits import MADE_BYTES_ALWAYS
from lite_nlp.export.runtime.made_members import MadeMembers
from lite_nlp.export.runtime.recipes import Packed, PackedMember, Recipes, RecipesFile
from tests.unit.export.own_model import TOKENIZER, write_bundle_without_graphs

CONTENTS = {"a": b"first" * 30, "b": b"", "c": b"third" * 50}


@pytest.mark.parametrize("in_memory", [10, 10_000])
def test_members_are_read_from_memory_or_disk(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_members, "_MAX_BYTES_IN_MEMORY", in_memory)
    made = MadeMembers()
    for name, content in CONTENTS.items():
        made.add(name, [content[:7], memoryview(content)[7:]])
    assert {name: made.read(name) for name in reversed(CONTENTS)} == CONTENTS
    assert "a" in made
    assert "d" not in made


def test_a_disk_without_place_is_our_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(made_members, "_MAX_BYTES_IN_MEMORY", 10)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(BundleError, match=r"a: expected space for a temporary file, found none: .*TMPDIR"):
        MadeMembers().add("a", [bytes(100)])


def _describing(path: Path, size_bytes: int) -> None:
    """A bundle that describes a member of zeros."""
    content = bytes(size_bytes)
    files = {
        "tokenizer.json": TOKENIZER,
        "config.toml": b"name = 'tiny'\n",
        "weights.lnlp": container_bytes(tensors={}, files={}, metadata={}),
        "zeros.residual": zlib.compress(content, 9),
    }
    files["recipes.zlib"], recipes_bytes = Recipes(parts={"zeros": ()}).to_stream()
    recipes = RecipesFile(file="recipes.zlib", size_bytes=recipes_bytes)
    zeros = PackedMember(size_bytes=size_bytes, sha256=sha256_bytes(content), residual="zeros.residual")
    write_bundle_without_graphs(
        path, files, Packed(container="weights.lnlp", recipes=recipes, members={"zeros": zeros})
    )


def test_the_most_that_a_small_file_may_describe_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "zeros.zip"
    _describing(path, MADE_BYTES_ALWAYS)
    assert path.stat().st_size < 200_000
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from lite_nlp.artifacts.bundles import open_any_bundle\n"
        "from lite_nlp.export.runtime.device import read_memory\n"
        "open_any_bundle(Path(sys.argv[1]))\n"
        # Not that of getrusage, which begins with the memory of this process.
        "print(read_memory().peak)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # All of the process, interpreter and libraries included.
    assert 0 < int(done.stdout) < 200_000_000


def test_more_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"packed: members: expected at most \d+ bytes in all, made of \d+, found"):
        _describing(tmp_path / "zeros.zip", 2 * MADE_BYTES_ALWAYS)
