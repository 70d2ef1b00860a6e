"""A small regression model to compress: nothing in it knows about translation."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import repeat
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.compress.ledger import CompressionSubject, StageRow
from lite_nlp.compress.lnlp.container import read_container
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
from lite_nlp.compress.tuning import TuningOptions
from lite_nlp.compress.weight_tuner import Finetuning

WIDTH = 48


class Regression(nn.Module):
    """Two layers; half of the hidden units do nothing, so that there is something to prune."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(WIDTH, 64)
        self.down = nn.Linear(64, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(x)))  # type: ignore[no-any-return]


def build_regression() -> Regression:
    torch.manual_seed(0)
    model = Regression()
    with torch.no_grad():
        model.up.weight[::2] *= 0.01
        model.down.weight[:, ::2] *= 0.01
    return model


INPUTS = torch.randn(64, WIDTH, generator=torch.Generator().manual_seed(1))
TARGETS = build_regression()(INPUTS).detach()


def regression_loss(model: nn.Module, _: object = None) -> Tensor:
    return F.mse_loss(model(INPUTS), TARGETS) / TARGETS.var()


def evaluate_model(model: nn.Module) -> float:
    with torch.no_grad():
        return float(regression_loss(model))


def load_regression(path: Path) -> Regression:
    model = Regression()
    state = read_container(path).state_dict()
    model.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return model


def regression_subject() -> CompressionSubject:
    return CompressionSubject(
        name="regression",
        files=lambda _: {"config.toml": b"width = 48\n"},
        load=load_regression,
        metric=Metric(name="bleu", label="BLEU", unit="BLEU"),
        score=lambda model: {"bleu": 100 * (1 - evaluate_model(model))},
        evaluate=evaluate_model,
        informing=lambda: [0],
        information=regression_loss,
        count_macs=lambda _: 2 * WIDTH * 64,
    )


def regression_finetuning() -> Finetuning:
    def batches() -> Iterator[int]:
        return repeat(0)

    return Finetuning(
        batches=batches,
        loss=regression_loss,
        options=TuningOptions(steps=30),
    )


def compress(
    out: Path,
    *,
    finetuning: Finetuning | None = None,
    on_evaluation: Callable[[], None] = lambda: None,
    **options: object,
) -> list[StageRow]:
    def evaluate(model: nn.Module) -> float:
        on_evaluation()
        return evaluate_model(model)

    return run_pipeline(
        build_regression(),
        out=out,
        subject=replace(regression_subject(), evaluate=evaluate),
        options=CompressionOptions(**{"quantizer": "kmeans"} | options),  # type: ignore[arg-type]
        finetuning=finetuning,
    )
