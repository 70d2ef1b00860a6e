"""A model that knows its sentences by heart, and its compression."""

from pathlib import Path

import pytest

from tests.integration.conftest import LiteNlp

from .by_heart import Compress, write_by_heart


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a data directory and a model trained on it, in a few seconds."""
    path = tmp_path_factory.mktemp("compress")
    write_by_heart(path)
    return path


@pytest.fixture
def run(lite_nlp: LiteNlp, home: Path, monkeypatch: pytest.MonkeyPatch) -> Compress:
    # A usual terminal, to see that the table fits it.
    monkeypatch.setenv("COLUMNS", "80")
    return Compress(lite_nlp, home)
