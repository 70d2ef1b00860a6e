"""A new run does not replace a model that it reads; that is told before anything is read or deleted."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lite_nlp
from lite_nlp.core.errors import LiteNlpError, UsageError


@pytest.mark.parametrize(
    ("make", "options", "owner"),
    [
        (lite_nlp.distill_model, {"teacher": "model"}, "the teacher's"),
        (lite_nlp.distill_model, {"teacher": "other", "ensemble": ["second", "model"]}, "that of --ensemble"),
        (lite_nlp.distill_model, {"teacher": "other", "init_from": "model"}, "that of --init-from"),
        (lite_nlp.train_model, {"init_from": "model"}, "that of --init-from"),
    ],
)
@pytest.mark.parametrize("force", [False, True])
def test_a_run_in_the_directory_of_a_model_that_it_reads(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[..., Any],
    options: dict[str, Any],
    owner: str,
    force: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_text("weights")
    arguments = {**options, "config": "no-such-preset", "data": "no-such-data", "out": tmp_path / "model"}
    with pytest.raises(UsageError, match=f"--out: expected another directory than {owner}, found {tmp_path}/model"):
        make(**arguments, force=force)
    assert (tmp_path / "model" / "model.safetensors").read_text() == "weights"
    # A run that is resumed keeps what is there.
    with pytest.raises(LiteNlpError) as caught:
        make(**arguments, resume=True)
    assert "another directory" not in str(caught.value)
