"""Teachers and data, and distillation there."""

from pathlib import Path

import pytest

from tests.integration.conftest import LiteNlp

from .tiny_distillation import Distill, write_distillation


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("distill")
    write_distillation(path)
    return path


@pytest.fixture
def distill(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Distill:
    monkeypatch.chdir(files)
    return Distill(lite_nlp, tmp_path)
