"""The explanation of a plan: prices by hand, and what the pipeline keeps with its last file."""

from pathlib import Path

import pytest

from lite_nlp.compress.explanation import preferred, price_of
from lite_nlp.compress.quantize.protocol import Choice
from tests.unit.compress.regression import compress


def _choice(bits: float, distortion: float) -> Choice:
    return Choice(levels=2, sparsity=0.0, bits=bits, distortion=distortion)


def test_the_price_is_the_slope_to_the_next_finer_choice_of_the_hull() -> None:
    fine, middle, coarse = _choice(16, 1.0), _choice(8, 3.0), _choice(4, 7.0)
    above = _choice(12, 2.9)
    choices = [coarse, above, fine, middle]
    # 2 nats for one byte, 4 for half of one.
    assert price_of(middle, choices) == pytest.approx(2.0)
    assert price_of(coarse, choices) == pytest.approx(8.0)
    assert price_of(fine, choices) is None
    assert price_of(above, choices) is None


def test_the_plan_of_a_target_is_that_of_the_file(tmp_path: Path) -> None:
    row = compress(tmp_path, quantizer=None, target_bytes=2500, tolerance=1e-6)[-1]
    plan = row.plan
    assert plan is not None
    assert (plan.target_bytes, plan.tolerance) == (2500, None)
    assert [matrix.name for matrix in plan.matrices] == ["up.weight", "down.weight"]
    assert {"kmeans", "grid"} == {candidate.quantizer for candidate in plan.compared}
    chosen = next(candidate for candidate in plan.compared if candidate.quantizer == plan.quantizer)
    # Nothing was trained: the file is the one that was planned, give or take what was not known of its header.
    assert chosen.fits
    assert chosen.tuned_loss is None
    assert chosen.size_bytes == pytest.approx(row.size_bytes, abs=60)
    assert chosen.loss is not None
    assert chosen.loss == min(candidate.loss for candidate in plan.compared if candidate.loss is not None)
    tensors = {tensor.name: tensor for tensor in row.tensors}
    for matrix in plan.matrices:
        assert matrix.weights == 48 * 64
        assert matrix.size_bytes == round(matrix.bits_per_weight * matrix.weights / 8)
        assert matrix.size_bytes == pytest.approx(tensors[matrix.name].size_bytes, rel=0.2)
        assert matrix.sparsity == pytest.approx(tensors[matrix.name].zeros / matrix.weights, abs=0.02)
        assert matrix.probes[0].bits_per_weight > matrix.probes[-1].bits_per_weight
        assert matrix.sensitivity > 0
    assert chosen.predicted == pytest.approx(sum(matrix.predicted for matrix in plan.matrices), rel=1e-4)


def test_a_quantizer_that_cannot_reach_the_target_is_named(tmp_path: Path) -> None:
    plan = compress(tmp_path, quantizer=None, target_bytes=900, tolerance=1e-6)[-1].plan
    assert plan is not None
    assert plan.quantizer == "kmeans"
    kmeans, grid = plan.compared
    assert (kmeans.quantizer, kmeans.fits) == ("kmeans", True)
    assert (grid.quantizer, grid.fits, grid.loss) == ("grid", False, None)
    assert grid.size_bytes > 900


def test_without_a_target_the_tolerance_is_told(tmp_path: Path) -> None:
    rows = compress(tmp_path, tolerance=0.05)
    assert [row.plan is None for row in rows] == [True] * (len(rows) - 1) + [False]
    plan = rows[-1].plan
    assert plan is not None
    assert (plan.target_bytes, plan.tolerance) == (None, 0.05)
    (only,) = plan.compared
    assert only.loss is not None
    assert 0 < only.loss <= 0.05
    # Neither the file nor the row's own JSON has it: it is in the ledger once.
    assert "plan" not in rows[-1].as_dict()


def test_of_plans_as_good_after_brief_training_the_closer_one_is_trained() -> None:
    assert preferred([1.57, 1.60], [2.0, 3.0], base=1.36) == 0
    # Within a twentieth of the increase, whatever the order.
    assert preferred([1.568, 1.571], [2.6, 1.97], base=1.357) == 1
    assert preferred([1.571, 1.568], [1.97, 2.6], base=1.357) == 0
    # Beyond it, training decides.
    assert preferred([1.568, 1.60], [2.6, 1.97], base=1.357) == 0
    # Nothing is lost: no increase to take a share of.
    assert preferred([1.2, 1.25], [1.4, 1.3], base=1.3) == 0
