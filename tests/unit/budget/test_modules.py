"""Any module against a budget. The small one costs, for 2 x 7 tokens, 14 x 3 x 5 Mult-Adds and 14 x 5 for the norm."""

import pytest
import torch
from torch import Tensor, nn

from lite_nlp import check_budget, count_model
from lite_nlp.budget.gate.limits import Limits
from lite_nlp.budget.reporting.modules import ModuleReport
from lite_nlp.config.preset import load_config
from lite_nlp.core.errors import OverBudgetError, UsageError
from lite_nlp.models.build import build_model

MACS = 14 * 3 * 5 + 14 * 5


class Small(nn.Module):
    """A table of 11 types, a projection of 3 to 5 channels, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 3)
        self.inner = nn.Sequential(nn.Linear(3, 5), nn.LayerNorm(5))
        self.scale = nn.Parameter(torch.ones(5))

    def forward(self, tokens: Tensor) -> Tensor:
        result: Tensor = self.inner(self.table(tokens)) * self.scale
        return result


@pytest.fixture
def tokens() -> Tensor:
    return torch.zeros(2, 7, dtype=torch.int64)


def test_any_module_is_counted_by_running(tokens: Tensor) -> None:
    counted = count_model(Small(), tokens)
    assert (counted.target, counted.family, counted.lengths) == ("Small", "", {})
    assert counted.params == {
        "total": 33 + 20 + 10 + 5,
        "embeddings": 33,
        "paper": 35,
        "parts": {"": 5, "table": 33, "inner.0": 20, "inner.1": 10},
    }
    assert counted.macs["executed"] == MACS
    assert counted.macs["parts"] == {"inner.0": {"executed": 210}, "inner.1": {"executed": 70}}
    assert counted.macs["kinds"] == {
        "matmul": 210,
        "convolution": 0,
        "contraction": 0,
        "layer_norm": 70,
        "batch_norm": 0,
    }
    assert "paper" not in counted.macs


def test_a_shared_table_counts_once(tokens: Tensor) -> None:
    module = Small()
    module.scale = nn.Parameter(torch.ones(1))
    module.inner.append(nn.Linear(5, 3))
    module.inner.append(nn.Linear(3, 11, bias=False))
    output = module.inner[3]
    assert isinstance(output, nn.Linear)
    output.weight = module.table.weight
    counted = count_model(module, tokens)
    assert (counted.params["total"], counted.params["embeddings"]) == (33 + 20 + 10 + 18 + 1, 33)


def test_a_module_is_held_against_the_limits(tokens: Tensor) -> None:
    module = Small()
    report = check_budget(module, tokens, max_macs=MACS, max_params=35)
    assert report.within_budget
    report.require()
    report = check_budget(module, tokens, max_macs=MACS - 1, max_params=67, count_params="total")
    assert [(verdict.quantity, verdict.found, verdict.within) for verdict in report.verdicts] == [
        ("macs", MACS, False),
        ("params", 68, False),
    ]
    with pytest.raises(OverBudgetError) as stopped:
        report.require()
    assert str(stopped.value).splitlines() == [
        "over budget: Small",
        "  Mult-Adds (executed): 280 found, at most 279 allowed; largest: inner.0 210 (75%), inner.1 70 (25%)",
        "  parameters (total): 68 found, at most 67 allowed; "
        "largest: table 33 (49%), inner.0 20 (29%), inner.1 10 (15%)",
    ]
    content = report.to_json()
    assert (content["within_budget"], content["checks"][0]["limit"]) == (False, MACS - 1)


def test_parameters_as_the_paper_counts_leave_the_tables_out(tokens: Tensor) -> None:
    report = check_budget(Small(), tokens, max_params=34)
    assert isinstance(report, ModuleReport)
    assert report.limits == Limits(max_params=34)
    [verdict] = [verdict for verdict in report.verdicts if not verdict.within]
    assert verdict.contributors == (("inner.0", 20), ("inner.1", 10), ("Small", 5))


def test_a_model_of_this_project_is_counted_in_closed_form_unless_it_is_given_inputs() -> None:
    config = load_config("multi30k-transformer").model
    model = build_model(config).eval()
    assert count_model(model) == count_model(config)
    tokens = torch.zeros(1, 30, dtype=torch.int64)
    run = count_model(model, tokens, torch.ones(1, 30, dtype=torch.bool), tokens)
    assert run.params["total"] == count_model(model).params["total"]
    assert "kinds" in run.macs


def test_arguments_that_do_not_go_together_are_named(tokens: Tensor) -> None:
    with pytest.raises(UsageError, match="Small: expected example inputs to call the module with, found none"):
        count_model(Small())
    with pytest.raises(UsageError, match="Small: expected neither lengths, beam nor a file size beside example inputs"):
        count_model(Small(), tokens, src_len=3)
    with pytest.raises(UsageError, match="--set changes a preset or config file, found a module Small"):
        count_model(Small(), tokens, overrides=["model.embed_dim=8"])
    with pytest.raises(UsageError, match="example inputs: expected a module to call with them, found 'multi30k"):
        count_model("multi30k-transformer", tokens)
