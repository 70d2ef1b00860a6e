"""Which channels of a module go: those of the least loss for the Mult-Adds that they save."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.budget.traced.counter import count_work
from lite_nlp.compress.callbacks import differentiable
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.prune.channel_choice import remove_channels
from lite_nlp.compress.prune.structure import Structure
from lite_nlp.compress.work import Work
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import SilentProgress

ROWS = torch.randn(64, 8, generator=torch.Generator().manual_seed(1))


def made(*, dead: int) -> nn.Sequential:
    """Two layers of 32 channels, of which the last ``dead`` of the first are alike and of no use."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
    with torch.no_grad():
        for layer in (module[0], module[2]):
            layer.weight.mul_(3)
        if dead:
            module[2].weight[:, -dead:] = 0
    return module


def subject_of(module: nn.Module) -> CompressionSubject:
    with torch.no_grad():
        wanted = module(ROWS)

    def loss(model: nn.Module, rows: Tensor) -> Tensor:
        return (model(rows) - wanted[: len(rows)]).square().mean()

    def noisy(model: nn.Module, rows: Tensor) -> Tensor:
        # At its own outputs the loss has no gradient.
        return (model(rows) - wanted[: len(rows)] - 0.1).square().mean()

    def evaluate(model: nn.Module) -> float:
        with torch.no_grad():
            return float(loss(model, ROWS))

    return CompressionSubject(
        name="rows",
        files=lambda model: {},
        load=lambda path: module,
        metric=Metric(name="loss", label="loss", unit="of loss", lower_is_better=True),
        score=lambda model: {"loss": evaluate(model)},
        evaluate=evaluate,
        informing=lambda: [ROWS],
        information=differentiable(noisy),
        count_macs=count,
    )


def count(model: nn.Module) -> int:
    return count_work(copy.deepcopy(model), ROWS[:1]).macs


def removed_from(
    module: nn.Module, fraction: float, *, subject: CompressionSubject | None = None, work: Work | None = None
) -> tuple[Any, Structure]:
    return remove_channels(
        module,
        fraction,
        subject=subject or subject_of(module),
        example_inputs=(ROWS[:1],),
        work=work,
        progress=SilentProgress(),
    )


def test_channels_of_no_use_go_first_and_nothing_changes() -> None:
    module = made(dead=16)
    smaller, structure = removed_from(module, 0.4)
    assert [layer.weight.shape for layer in smaller[::2]] == [(16, 8), (32, 16), (4, 32)]
    torch.testing.assert_close(smaller(ROWS), module(ROWS))
    assert [(part.kind, part.key, part.before, part.after) for part in structure.removed] == [
        ("channels of 0", "0", 32, 16)
    ]
    assert (structure.macs_before, structure.macs_after) == (256 + 1024 + 128, 128 + 512 + 128)
    assert structure.measured_loss == pytest.approx(0, abs=1e-9)
    assert module[0].weight.shape == (32, 8)


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.6, 0.85])
def test_the_fraction_is_reached_with_widths_in_steps_of_eight(fraction: float) -> None:
    smaller, structure = removed_from(made(dead=0), fraction)
    assert structure.macs_after == count(smaller) <= (1 - fraction) * structure.macs_before
    assert all(part.after % 8 == 0 for part in structure.removed)
    # What is expected is in the unit of what is measured, though the information is not.
    assert structure.expected_loss == pytest.approx(structure.measured_loss, rel=0.9)
    assert {probe.key for probe in structure.probes} == {"0", "2"}


def test_more_than_can_go_is_refused_with_what_can() -> None:
    with pytest.raises(ModelError) as caught:
        removed_from(made(dead=0), 0.95)
    assert str(caught.value) == (
        "rows: structured pruning: expected to remove 95.0% of 1,408 Mult-Adds, found that at most 88.6% can go, with "
        "the channels of 2 layers"
    )


def test_a_choice_that_was_made_before_is_not_made_again(tmp_path: Path) -> None:
    module = made(dead=0)
    first, _ = removed_from(module, 0.4, work=Work(tmp_path, "key"))

    def never(model: nn.Module) -> float:
        raise AssertionError("nothing is measured again")

    subject = replace(subject_of(module), evaluate=never)
    again, structure = removed_from(module, 0.4, subject=subject, work=Work(tmp_path, "key"))
    assert torch.equal(first(ROWS), again(ROWS))
    assert structure.removed
