from pathlib import Path

import pytest

from lite_nlp.artifacts.models import read_config, resolve_source
from lite_nlp.core.errors import ModelError


@pytest.mark.parametrize(
    ("file", "found"), [("data.json", "a data directory"), ("notes.txt", "a directory without it")]
)
def test_a_directory_that_is_no_model_is_told_for_what_it_is(tmp_path: Path, file: str, found: str) -> None:
    (tmp_path / file).write_text("{}", encoding="utf-8")
    with pytest.raises(ModelError, match=rf"expected a model directory with config\.toml, found {found}"):
        read_config(resolve_source(tmp_path))
