import pytest
import torch

from lite_nlp.models.dropout import apply_dropout


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_as_many_become_zero_as_asked_and_the_mean_stays(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    # Not a multiple of what one draw decides about.
    out = apply_dropout(torch.ones(999, 1003, dtype=dtype), rate, training=True)
    kept = out != 0
    deviation = (rate * (1 - rate) / out.numel()) ** 0.5
    # Also within each of the four parts of a draw.
    for part in [kept.flatten()[start::4] for start in range(4)]:
        assert part.double().mean().item() == pytest.approx(1 - rate, abs=5 * 2 * deviation + 1e-5)
    assert out[kept].double().unique().tolist() == [pytest.approx(1 / (1 - rate), rel=1e-2)]
    assert out.dtype is dtype


def test_neighbours_are_independent() -> None:
    torch.manual_seed(1)
    kept = (apply_dropout(torch.ones(4_000_000), 0.5, training=True) != 0).double()
    for distance in range(1, 9):
        both = (kept[distance:] * kept[:-distance]).mean().item()
        assert both == pytest.approx(0.25, abs=2e-3)


def test_the_gradient_has_the_same_mask() -> None:
    torch.manual_seed(2)
    x = torch.ones(7, 31, requires_grad=True)
    out = apply_dropout(x, 0.4, training=True)
    out.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, out.detach())


def test_the_seed_decides() -> None:
    masks = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        masks.append(apply_dropout(torch.ones(50, 50), 0.5, training=True))
    assert torch.equal(masks[0], masks[1])
    assert not torch.equal(masks[0], masks[2])


def test_nothing_and_all() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    assert apply_dropout(x, 0.5, training=False) is x
    assert apply_dropout(x, 0.0, training=True) is x
    # Too small for the resolution: nothing is dropped, nothing is scaled.
    assert torch.equal(apply_dropout(x, 1e-9, training=True), x)
    assert not apply_dropout(x, 1.0, training=True).any()
    assert apply_dropout(torch.empty(0, 4), 0.5, training=True).shape == (0, 4)
