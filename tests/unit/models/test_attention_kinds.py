"""The registry of attention kinds is open: a toy kind, registered here, is built, trained, decoded and counted."""

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.budget.closed_form.attention import ATTENTION_FORMULAS, AttentionFormula
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.overhead import count_overhead
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.budget.traced.counter import count_stepped_model
from lite_nlp.config.kinds import ATTENTION_KINDS, AttentionFacts
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import ConfigError, CountError, ModelError
from lite_nlp.models.attention import registry
from lite_nlp.models.attention.registry import (
    ATTENTION_MODULES,
    AttentionModules,
    AttentionSpec,
    attention_modules,
    register_attention,
)
from lite_nlp.models.build import build_model
from tests.unit.models.conftest import randomized, small_config


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Means (B, T, I) of ``values`` (B, S, I) over the tokens that are True in ``mask`` (B, T, S)."""
    weights = mask.to(values.dtype) / mask.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, values)


class MeanSelfAttention(nn.Module):
    """The mean of the values of all tokens so far."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.inner_dim = spec.inner_dim
        self.in_proj = spec.fused_projection(1)
        self.out_proj = spec.output_projection()

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        projected: Tensor = self.out_proj(_mean(self.in_proj(x), mask[:, 0].expand(x.shape[0], -1, -1)))
        return projected

    def init_state(self, like: Tensor, capacity: int) -> dict[str, Tensor]:
        return {"self_value": like.new_zeros((like.shape[0], capacity, self.inner_dim))}

    def step(self, x: Tensor, state: dict[str, Tensor], position: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        slots = torch.arange(state["self_value"].shape[1], device=x.device)[None, :]
        values = torch.where((slots == position[:, None])[:, :, None], self.in_proj(x), state["self_value"])
        return self.out_proj(_mean(values, (slots <= position[:, None])[:, None])), {"self_value": values}


class MeanCrossAttention(nn.Module):
    """The mean of the values of all source tokens."""

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        self.memory_proj = spec.fused_projection(1)
        self.out_proj = spec.output_projection()

    def project_memory(self, memory: Tensor, src_mask: Tensor) -> dict[str, Tensor]:
        return {"cross_value": self.memory_proj(memory)}

    def forward(self, x: Tensor, state: dict[str, Tensor], src_mask: Tensor) -> Tensor:
        mask = src_mask[:, None, :].expand(-1, x.shape[1], -1)
        projected: Tensor = self.out_proj(_mean(state["cross_value"], mask))
        return projected


MODULES = AttentionModules(self_attention=MeanSelfAttention, cross_attention=MeanCrossAttention)
FORMULA = AttentionFormula(
    query_parts=0,
    memory_parts=1,
    pair_macs=lambda block: block.inner,
    state_numbers=lambda block, length: block.inner * length,
)


@pytest.fixture
def mean_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind ``mean``: a row of facts, two modules and a formula."""
    monkeypatch.setitem(ATTENTION_KINDS, "mean", AttentionFacts(is_linear=False))
    monkeypatch.setitem(ATTENTION_FORMULAS, "mean", FORMULA)
    monkeypatch.setitem(ATTENTION_MODULES, "mean", MODULES)


def _config(**changes: object) -> ModelConfig:
    return small_config(family="transformer", self_attention="mean", cross_attention="mean", **changes)


@pytest.mark.usefixtures("mean_kind")
def test_a_model_of_the_kind_trains() -> None:
    torch.manual_seed(1)
    model = build_model(_config(attention_expansion=2))
    assert isinstance(model.decoder[1].mixer.attention, MeanSelfAttention)
    assert isinstance(model.decoder[1].cross, MeanCrossAttention)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tokens, mask = torch.randint(3, 37, (3, 6)), torch.ones(3, 6, dtype=torch.bool)
    losses = []
    for _ in range(2):
        logits = model(tokens, mask, tokens)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens.roll(-1, 1).flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert losses[1] < losses[0]


@pytest.mark.usefixtures("mean_kind")
@pytest.mark.parametrize("options", [{}, {"keep_softmax_every": 2}, {"attention_expansion": 2, "pre_norm": True}])
def test_steps_of_the_kind_equal_the_forward(options: dict[str, object]) -> None:
    model = randomized(_config(**options)).double()
    src, tgt = torch.randint(3, 37, (3, 7)), torch.randint(3, 37, (3, 9))
    mask = torch.arange(7) < torch.tensor([7, 1, 4])[:, None]
    with torch.inference_mode():
        state = model.init_state(model.encode(src, mask), mask, 11)
        steps = []
        for tokens in tgt.unbind(1):
            logits, state = model.decode_step(tokens, state)
            steps.append(logits)
        torch.testing.assert_close(torch.stack(steps, dim=1), model(src, mask, tgt), rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("mean_kind")
@pytest.mark.parametrize("options", [{}, {"keep_softmax_every": 2}, {"attention_expansion": 2}])
def test_closed_form_of_the_kind_is_what_the_counter_finds(options: dict[str, object]) -> None:
    config = _config(**options)
    with torch.device("meta"):
        model = build_model(config).eval()
    count = count_config(config, src_len=7, tgt_len=5, beam=2)
    overhead = sum(item.macs for item in count_overhead(config, src_len=7, tgt_len=5, beam=2))
    assert count.macs_executed + overhead == count_stepped_model(model, src_len=7, tgt_len=5, beam=2).total
    assert count.params_total == sum(parameter.numel() for parameter in model.parameters())
    state = model.init_state(torch.empty(1, 7, 16, device="meta"), torch.ones(1, 7, device="meta").bool(), 5)
    kept = sum(tensor.numel() for name, tensor in state.items() if name not in ("position", "src_mask"))
    assert sum(count_state(config, src_len=7, tgt_len=5).values()) == kept


def test_a_kind_is_refused_where_a_part_of_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="found 'mean'"):
        _config()
    monkeypatch.setitem(ATTENTION_KINDS, "mean", AttentionFacts(is_linear=False))
    expected = "attention kind: expected one of elu, random-features, softmax, t2r, found 'mean'"
    with pytest.raises(ModelError, match=expected):
        build_model(_config())
    with pytest.raises(CountError, match=r"decoder\.attention: .* found 'mean'"):
        count_config(_config())


def test_a_kind_has_one_implementation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "ATTENTION_MODULES", {})
    register_attention("mean", MODULES)
    assert attention_modules("mean") is MODULES
    with pytest.raises(ModelError, match="attention kind 'mean': expected a kind that is not registered"):
        register_attention("mean", MODULES)


def test_every_kind_has_all_of_its_parts() -> None:
    assert set(ATTENTION_KINDS) == set(ATTENTION_FORMULAS)
    for kind in ATTENTION_KINDS:
        attention_modules(kind)
