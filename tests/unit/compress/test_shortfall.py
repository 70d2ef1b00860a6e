"""Targets out of reach: by how much, and what takes the bytes."""

import re
from pathlib import Path

import pytest

from lite_nlp.compress.lnlp.composition import MATRIX_KINDS
from lite_nlp.compress.shortfall import out_of_reach
from lite_nlp.core.errors import TargetSizeError
from tests.unit.compress.regression import compress


def test_the_figures_of_the_smallest_file_are_in_the_message() -> None:
    by_kind = {"weights": 0, "codebooks": 100, "symbols": 1000, "tables": 50, "states": 50, "biases": 80, "header": 20}
    error = out_of_reach("m", target_bytes=1000, by_kind=by_kind, num_weights=2400, smallest="the smallest file")
    assert str(error) == (
        "m: cannot be compressed to 1,000 bytes; the smallest file has 1,300 bytes, 300 too many, 1.30 times the "
        "target: matrices 1,200 (4.00 bits for each of 2,400 weights), biases 80, header 20"
    )
    assert (error.smallest_bytes, error.target_bytes, error.num_weights) == (1300, 1000, 2400)
    assert error.bytes_by_kind == by_kind


def test_a_target_below_the_overhead_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    calls: list[int] = []
    with pytest.raises(
        TargetSizeError,
        match=r"regression: cannot be compressed to 200 bytes: without any of its matrices the file has",
    ) as caught:
        compress(tmp_path, target_bytes=200, on_evaluation=lambda: calls.append(1))
    error = caught.value
    assert calls == []
    assert error.num_weights == 0
    assert sum(error.bytes_by_kind.values()) == error.smallest_bytes > 200
    assert not any(error.bytes_by_kind[kind] for kind in MATRIX_KINDS)
    assert re.search(rf"{error.smallest_bytes - 200} too many, .* times the target: (biases|header) \d+", str(error))


def test_the_overhead_is_a_lower_bound_of_every_file(tmp_path: Path) -> None:
    with pytest.raises(TargetSizeError) as below:
        compress(tmp_path, target_bytes=200)
    (tmp_path / "other").mkdir()
    with pytest.raises(TargetSizeError, match="the smallest file, with every matrix as coarse as it can be") as beyond:
        compress(tmp_path / "other", target_bytes=below.value.smallest_bytes + 50)
    error = beyond.value
    assert error.num_weights == 2 * 48 * 64
    matrices = sum(error.bytes_by_kind[kind] for kind in MATRIX_KINDS)
    assert matrices > 0
    assert below.value.smallest_bytes <= error.smallest_bytes - matrices
