import math

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp.config.preset import TrainingConfig, load_config
from lite_nlp.core.errors import TrainingError
from lite_nlp.models.build import build_model
from lite_nlp.training.optimizer import build_optimizer, load_optimizer_state, optimizer_state, scale_gradients


def make_model() -> nn.Linear:
    torch.manual_seed(0)
    return nn.Linear(3, 2)


def give_gradients(model: nn.Module, step: int) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.sin(torch.arange(parameter.numel()) + float(step)).view_as(parameter)


def test_adam_with_decoupled_decay_is_its_recurrence() -> None:
    config = TrainingConfig(learning_rate=0.1, adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-6, weight_decay=0.5)
    model = make_model()
    # Loshchilov and Hutter 2019, algorithm 2, in double; the bias has no decay.
    expected = {name: parameter.detach().double().numpy().copy() for name, parameter in model.named_parameters()}
    first = {name: np.zeros_like(value) for name, value in expected.items()}
    second = {name: np.zeros_like(value) for name, value in expected.items()}
    optimizer = build_optimizer(model, config)
    for step in range(1, 5):
        give_gradients(model, step)
        for name, parameter in model.named_parameters():
            gradient = parameter.grad.double().numpy()
            decay = 0.5 if name == "weight" else 0.0
            first[name] = 0.8 * first[name] + 0.2 * gradient
            second[name] = 0.9 * second[name] + 0.1 * gradient**2
            move = (first[name] / (1 - 0.8**step)) / (np.sqrt(second[name] / (1 - 0.9**step)) + 1e-6)
            expected[name] = expected[name] - 0.1 * (move + decay * expected[name])
        optimizer.step()
    for name, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "vectors"),
    [("t2r", {"feature_map.bias"}), ("random-features", {"feature_map.temperature"})],
)
def test_vectors_of_every_head_do_not_decay(kind: str, vectors: set[str]) -> None:
    config = load_config(
        "tinyshakespeare-t2r",
        [f"model.self_attention={kind}", "model.num_decoder_layers=1", "model.tgt_vocab_size=300"],
    )
    model = build_model(config.model)
    decays = {
        id(parameter): group["weight_decay"]
        for group in build_optimizer(model, config.training).param_groups
        for parameter in group["params"]
    }
    assert config.training.weight_decay
    free = {name for name, parameter in model.named_parameters() if parameter.ndim > 1 and not decays[id(parameter)]}
    assert {name.partition("attention.")[2] for name in free} == vectors
    assert all(decays[id(parameter)] for name, parameter in model.named_parameters() if name.endswith("proj.weight"))


def test_gradients_are_divided_then_clipped() -> None:
    model = make_model()
    for parameter in model.parameters():
        parameter.grad = torch.full_like(parameter, 6.0)
    norm = scale_gradients(list(model.parameters()), count=2.0, clip_norm=1.0)
    assert norm == pytest.approx(3.0 * math.sqrt(8))
    clipped = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
    assert float(clipped.norm()) == pytest.approx(1.0)


@pytest.mark.parametrize("clip_norm", [0.0, 100.0])
def test_gradients_within_the_norm_are_only_divided(clip_norm: float) -> None:
    model = make_model()
    model.weight.grad = torch.full_like(model.weight, 6.0)
    scale_gradients(list(model.parameters()), count=2.0, clip_norm=clip_norm)
    assert torch.equal(model.weight.grad, torch.full_like(model.weight, 3.0))
    assert model.bias.grad is None


def test_state_goes_out_and_in_as_named_tensors() -> None:
    config = TrainingConfig(learning_rate=0.1)
    whole, parts = make_model(), make_model()
    whole_optimizer, first_optimizer = build_optimizer(whole, config), build_optimizer(parts, config)
    for step in range(3):
        for model, optimizer in ((whole, whole_optimizer), (parts, first_optimizer)):
            give_gradients(model, step)
            optimizer.step()
    state = optimizer_state(first_optimizer, parts)
    assert set(state) == {f"{key}.{name}" for key in ("step", "exp_avg", "exp_avg_sq") for name in ("weight", "bias")}
    copied = {name: tensor.clone() for name, tensor in state.items()}
    second_optimizer = build_optimizer(parts, config)
    load_optimizer_state(second_optimizer, parts, copied)
    for model, optimizer in ((whole, whole_optimizer), (parts, second_optimizer)):
        give_gradients(model, 3)
        optimizer.step()
    assert torch.equal(whole.weight, parts.weight)
    assert torch.equal(whole.bias, parts.bias)


def test_state_of_another_model_is_refused() -> None:
    model = make_model()
    optimizer = build_optimizer(model, TrainingConfig())
    with pytest.raises(TrainingError, match=r"expected tensors of the model's parameters, found exp_avg\.scale"):
        load_optimizer_state(optimizer, model, {"exp_avg.scale": torch.zeros(2)})
    with pytest.raises(TrainingError, match=r"exp_avg\.weight: expected shape \(2, 3\), found \(3, 2\)"):
        load_optimizer_state(optimizer, model, {"exp_avg.weight": torch.zeros(3, 2)})
