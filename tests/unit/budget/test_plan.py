"""The plan of a compression in a ledger: what is read, summed up, drawn and printed."""

import copy
from typing import Any

import pytest
from rich.console import Console

from lite_nlp.budget.reporting.plan import read_plan
from lite_nlp.budget.reporting.plan_plot import draw_plan
from lite_nlp.budget.reporting.plan_tables import compared_table, matrices_table, nats, thousandths
from lite_nlp.budget.reporting.plots import render_svg


def _matrix(name: str, weights: int = 1000, bits: float = 2.0, sensitivity: float = 1.0) -> dict[str, Any]:
    return {
        "name": name,
        "weights": weights,
        "values": 9,
        "step": 0.0,
        "sparsity": 0.5,
        "bits_per_weight": bits,
        "size_bytes": round(bits * weights / 8),
        "fisher": 0.001,
        "predicted": 0.002,
        "price": None,
        "sensitivity": sensitivity,
        "probes": [{"bits_per_weight": 1.0, "sparsity": 0.8, "predicted": 0.05, "measured": 0.25}],
    }


def _plan(*matrices: dict[str, Any], **changes: Any) -> dict[str, Any]:
    compared = [{"quantizer": "[red]grid", "size_bytes": 900, "fits": True, "predicted": 0.1, "loss": 0.2}]
    compared.append({"quantizer": "kmeans", "size_bytes": 1900, "fits": False})
    return {
        "quantizer": "[red]grid",
        "target_bytes": 1000,
        "tolerance": None,
        "vector_bits": 5,
        "compared": compared,
        "matrices": list(matrices) or [_matrix("a")],
        **changes,
    }


MANY = _plan(*(_matrix(f"layer.{place}.weight", 100 * place, 1 + place / 10, 10.0**place) for place in range(1, 21)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("matrices", 0, "predicted"), float("nan")),
        (("matrices", 0, "price"), float("inf")),
        (("matrices", 0, "weights"), -1),
        (("matrices", 0, "weights"), 1.5),
        (("matrices", 0, "name"), "x" * 5000),
        (("matrices", 0, "sparsity"), 1.01),
        (("matrices", 0, "probes"), [3]),
        (("matrices",), []),
        (("compared", 0, "size_bytes"), "many"),
        (("vector_bits",), True),
        (("quantizer",), None),
    ],
)
def test_what_is_no_plan_is_none(path: tuple[Any, ...], value: object) -> None:
    content = copy.deepcopy(MANY)
    assert read_plan(content) is not None
    place = content
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    assert read_plan(content) is None


def test_lines_are_the_heaviest_the_others_and_the_sum() -> None:
    plan = read_plan(MANY)
    assert plan is not None
    lines = plan.lines(3)
    assert [line.name for line in lines] == [
        "layer.20.weight", "layer.19.weight", "layer.18.weight", "17 further matrices", "all 20 matrices",
    ]  # fmt: skip
    assert lines[-1].weights == 100 * 210
    assert lines[-1].size_bytes == sum(line.size_bytes for line in lines[:-1])
    # The mean over weights: sum of p (1 + p / 10) over the sum of p, for p from 1 to 20.
    assert lines[-1].bits_per_weight == pytest.approx((210 + 287) / 210)
    assert lines[-1].predicted == pytest.approx(20 * 0.002)
    assert lines[0].coarse == (0.05, 0.25)
    assert lines[-1].coarse is None
    assert [line.name for line in plan.lines(20)][-2:] == ["layer.1.weight", "all 20 matrices"]


def test_points_are_where_their_figures_are() -> None:
    plan = read_plan(_plan(_matrix("big", 9000, 2.0, 0.1), _matrix("small", 1000, 4.0, 10.0), _matrix("idle", 8, 1, 0)))
    assert plan is not None
    panel = draw_plan(plan)
    assert panel is not None
    left, top, right, bottom = panel.plot
    big, small = panel.marks
    # Sensitivities of 0.1 and 10 end a logarithmic axis of two decades; 2 and 4 bits are on one from 0 to 4.
    assert (big.x, small.x) == pytest.approx((left, right))
    assert (big.y, small.y) == pytest.approx(((top + bottom) / 2, top))
    assert [tick.text for tick in panel.x_ticks] == ["0.1", "1", "10"]
    # The areas are as the bytes: 2250 and 500.
    assert (big.radius / small.radius) ** 2 == pytest.approx(2250 / 500)
    assert (big.name, small.name) == ("1", "2")
    assert [note.text for note in panel.notes] == ["1  big, 9K", "2  small, 1K"]
    assert "big: 9,000 weights, 2.00 bits each, 2,250 bytes, 50.0% zeros" in big.text
    assert panel.summary.startswith("2 of 3 matrices, from 2.00 to 4.00 bits per weight")


def test_numbers_of_points_at_one_place_are_apart_and_inside() -> None:
    plan = read_plan(_plan(*(_matrix(f"m{place}", 1000 - place, 2.0, 1.0) for place in range(30))))
    assert plan is not None
    panel = draw_plan(plan)
    assert panel is not None
    numbered = [mark for mark in panel.marks if mark.name]
    assert len(numbered) == len(panel.notes) == 12
    left, top, right, bottom = panel.plot
    for place, mark in enumerate(numbered):
        assert left < mark.label_x < right
        assert top < mark.label_y < bottom + 5
        for other in numbered[:place]:
            assert (mark.label_x - other.label_x) ** 2 + (mark.label_y - other.label_y) ** 2 > 14**2
    # Numbers that are not beside their point have a line to it.
    assert sum(bool(mark.leader) for mark in numbered) >= 4


def test_without_a_sensitivity_there_is_no_picture() -> None:
    plan = read_plan(_plan(_matrix("idle", sensitivity=0.0)))
    assert plan is not None
    assert draw_plan(plan) is None


def test_hostile_names_are_text_in_picture_and_tables(capsys: pytest.CaptureFixture[str]) -> None:
    plan = read_plan(_plan(_matrix("<b>[red]" + "x" * 200)))
    assert plan is not None
    panel = draw_plan(plan)
    assert panel is not None
    picture = render_svg([panel], title="t")
    assert "<b>" not in picture
    assert "1  &lt;b&gt;[red]xxx" in picture
    assert max(len(note.text) for note in panel.notes) <= 48
    console = Console(width=80)
    console.print(compared_table(plan))
    console.print(matrices_table(plan))
    shown = capsys.readouterr().out
    assert "[red]grid" in shown
    assert "<b>[red]xxx" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for words in ("for at most 1,000 bytes", "chosen", "too large", "all 1 matrices"):
        assert words in shown


def test_figures_are_short() -> None:
    assert [nats(value) for value in (None, 0.0, 0.0123456, 1e-9)] == ["", "0", "0.0123", "1e-09"]
    assert [thousandths(value) for value in (0.0, 0.0000051, 0.0123456, 2.4851, -0.2)] == [
        "0", "0.0051", "12.3", "2,485", "-200",
    ]  # fmt: skip
