"""Gradients and precision of every family."""

from typing import Any

import torch
import torch.nn.functional as F

from tests.unit.models.conftest import randomized, small_config


def _loss(variant: dict[str, Any], *, bf16: bool) -> tuple[torch.nn.Module, torch.Tensor]:
    model = randomized(small_config(**{**variant, "dropout": 0.1, "attention_dropout": 0.1, "conv_dropout": 0.1}))
    model.train()
    src = torch.randint(3, model.config.src_vocab_size, (3, 12), generator=torch.Generator().manual_seed(1))
    tgt = torch.randint(3, model.config.tgt_vocab_size, (3, 40), generator=torch.Generator().manual_seed(2))
    mask = torch.arange(12)[None, :] < torch.tensor([12, 7, 1])[:, None]
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(src, mask, tgt)
    return model, F.cross_entropy(logits.float().flatten(0, 1), tgt.roll(-1, 1).flatten())


def test_gradients_reach_every_parameter(variant: dict[str, Any]) -> None:
    model, loss = _loss(variant, bf16=False)
    loss.backward()  # type: ignore[no-untyped-call]
    # A key's bias shifts all scores of a query alike, and softmax takes the shift out: its gradient is zero by design.
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_bf16_step_stays_finite(variant: dict[str, Any]) -> None:
    model, loss = _loss(variant, bf16=True)
    loss.backward()  # type: ignore[no-untyped-call]
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)
