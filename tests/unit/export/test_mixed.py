"""The choice of forms, by hand-made losses and times; its measuring is tested with graphs in ``test_onnx_integers``."""

from collections.abc import Sequence

import pytest

from lite_nlp.core.errors import QualityLossError
from lite_nlp.export.exporters import EXPORTERS
from lite_nlp.export.matrices import Form, Matrix, ProductShape, Rounding
from lite_nlp.export.mixed.choice import Candidate, choose_forms
from lite_nlp.export.mixed.plan import PlannedMatrix, write_accepted
from lite_nlp.export.mixed.timing import forms_without_delay, time_products


def _candidate(name: str, calls: int, losses: dict[Form, float]) -> Candidate:
    """A matrix of 64 x 64: 16,384 bytes in fp32, 4,352 in int8, 2,560 in int4."""
    return Candidate(matrix=Matrix(name.encode(), name, 64, 64), calls=calls, losses=losses)


def _chosen(candidates: list[Candidate], limit: float) -> dict[str, Form]:
    return {key.decode(): form for key, form in choose_forms(candidates, limit).items()}


def test_sizes_of_the_forms() -> None:
    matrix = Matrix(b"", "", 64, 64)
    # A scale for each channel, and for each 32 weights.
    assert [matrix.size_bytes(form) for form in matrix.forms] == [64 * 64 * 4, 64 * 64 + 64 * 4, 64 * 64 // 2 + 128 * 4]
    assert Matrix(b"", "", 64, 48).forms == ("fp32", "int8")


@pytest.mark.parametrize(
    ("limit", "often", "once"),
    [
        (0.0, "fp32", "fp32"),
        # What is read at every step saves most for the same loss.
        (0.010, "int8", "fp32"),
        (0.020, "int8", "int8"),
        (0.051, "int4", "int8"),
        (0.080, "int4", "int4"),
    ],
)
def test_the_loss_is_spent_where_it_saves_most_bytes(limit: float, often: str, once: str) -> None:
    losses: dict[Form, float] = {"fp32": 0.0, "int8": 0.01, "int4": 0.04}
    candidates = [_candidate("once", 1, losses), _candidate("often", 16, losses)]
    assert _chosen(candidates, limit) == {"often": often, "once": once}


def test_a_form_that_loses_nothing_more_is_free() -> None:
    losses: dict[Form, float] = {"fp32": 0.0, "int8": 0.01, "int4": 0.004}
    assert _chosen([_candidate("a", 1, losses)], 0.005) == {"a": "int4"}
    assert _chosen([_candidate("a", 1, {"fp32": 0.0, "int8": 0.0})], 0.0) == {"a": "int8"}


def test_a_form_that_was_not_worth_measuring_is_not_chosen() -> None:
    assert _chosen([_candidate("a", 1, {"fp32": 0.0})], 1.0) == {"a": "fp32"}


@pytest.mark.parametrize(
    ("seconds", "kept"),
    [
        ({"fp32": 3.0, "int8": 2.0, "int4": 1.0}, ("fp32", "int8", "int4")),
        # As fast, with fewer bytes.
        ({"fp32": 1.0, "int8": 1.05, "int4": 1.1}, ("fp32", "int8", "int4")),
        ({"fp32": 1.0, "int8": 1.5, "int4": 0.9}, ("fp32", "int4")),
        ({"fp32": 3.0, "int8": 2.0, "int4": 2.5}, ("fp32", "int8")),
        ({"fp32": 1.0, "int8": 2.0}, ("fp32",)),
    ],
)
def test_slower_forms_are_left_out(seconds: dict[Form, float], kept: tuple[Form, ...]) -> None:
    assert forms_without_delay([seconds]) == kept


def test_a_form_is_left_out_that_one_runtime_runs_slower() -> None:
    first: dict[Form, float] = {"fp32": 3.0, "int8": 2.0, "int4": 1.0}
    second: dict[Form, float] = {"fp32": 3.0, "int8": 1.0, "int4": 2.0}
    assert forms_without_delay([first, second]) == forms_without_delay([second, first]) == ("fp32", "int8")


def test_a_matrix_without_a_form_stays_in_fp32_where_the_precision_is_mixed() -> None:
    mixed = Rounding(precision="mixed", forms={b"a": "int4"})
    assert (mixed.form(b"a"), mixed.form(b"b")) == ("int4", "fp32")
    assert (Rounding(precision="int8").form(b"b"), Rounding().form(b"b")) == ("int8", "fp32")


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
def test_every_shape_is_timed_in_all_its_forms(runtime: str) -> None:
    shapes = [ProductShape(1, 64, 64), ProductShape(4, 48, 64), ProductShape(1, 64, 64)]
    make = EXPORTERS[runtime].product_call
    assert make is not None
    seconds = time_products(shapes, make)
    assert {shape: tuple(found) for shape, found in seconds.items()} == {
        shapes[0]: ("fp32", "int8", "int4"),
        shapes[1]: ("fp32", "int8"),
    }
    assert all(time > 0 for found in seconds.values() for time in found.values())


@pytest.mark.parametrize(("least", "tried"), [("fp32", ["int4", "int8", "fp32"]), ("int8", ["int4", "int8"])])
def test_a_plan_that_loses_too_much_gives_way_to_a_nearer_one(
    least: Form, tried: list[Form], caplog: pytest.LogCaptureFixture
) -> None:
    written: list[Form] = []
    forms: list[Form] = ["int4", "int8", "fp32"]
    plans = [[PlannedMatrix(matrix=Matrix(b"a", "a", 64, 64), form=form, losses={})] for form in forms]

    def write(plan: Sequence[PlannedMatrix]) -> Form:
        written.append(plan[0].form)
        if plan[0].form != least:
            raise QualityLossError(f"lost too much in {plan[0].form}")
        return plan[0].form

    assert write_accepted(plans, write) == least
    assert written == tried
    assert [record.message.partition(";")[0] for record in caplog.records] == [
        f"lost too much in {form}" for form in tried[:-1]
    ]
    with pytest.raises(QualityLossError, match="int4"):
        write_accepted(plans[:1], write)
