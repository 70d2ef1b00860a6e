"""Adam with decoupled weight decay, and its state as plain named tensors."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.core.errors import TrainingError
from lite_nlp.models.roles import Role, marked_sites

__all__ = ["build_optimizer", "load_optimizer_state", "optimizer_state", "scale_gradients"]

_MOMENTS = ("exp_avg", "exp_avg_sq")


def build_optimizer(model: nn.Module, config: TrainingConfig) -> torch.optim.AdamW:
    """Adam over all parameters of ``model`` (Loshchilov and Hutter 2019 for the decay).

    Weight decay is applied to matrices and kernels, not to biases, normalization gains and the scales of random
    features, though a feature map has a vector of them for each head.
    """
    scales = {id(target) for target, site in marked_sites(model) if site.role is Role.FEATURE_SCALE}
    decayed: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            vector = parameter.ndim <= 1 or name.rpartition(".")[2] == "bias" or id(parameter) in scales
            (others if vector else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=config.learning_rate,
        betas=(config.adam_beta1, config.adam_beta2),
        eps=config.adam_epsilon,
        fused=True,
    )


def scale_gradients(parameters: list[nn.Parameter], *, count: float, clip_norm: float) -> float:
    """Divide the summed gradients by ``count`` and clip their global norm.

    Args:
        parameters: The trained parameters; those without a gradient are left alone.
        count: Target tokens that the gradients were summed over.
        clip_norm: Largest norm after the division; 0 turns clipping off.

    Returns:
        The norm after the division and before the clipping.
    """
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    norm = float(torch.nn.utils.get_total_norm(gradients)) / count
    scale = 1.0 / count
    if 0.0 < clip_norm < norm:
        scale *= clip_norm / norm
    for gradient in gradients:
        gradient.mul_(scale)
    return norm


def optimizer_state(optimizer: torch.optim.AdamW, model: nn.Module) -> dict[str, Tensor]:
    """The moments and step counts as tensors named ``exp_avg.<parameter>`` and so on, without copying them."""
    state: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            state[f"{key}.{name}"] = value
    return state


def load_optimizer_state(optimizer: torch.optim.AdamW, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Restore a state from ``optimizer_state``.

    Raises:
        TrainingError: If a tensor does not belong to the model or has another shape than its parameter.
    """
    parameters = dict(model.named_parameters())
    for name, tensor in tensors.items():
        key, _, parameter_name = name.partition(".")
        parameter = parameters.get(parameter_name)
        if parameter is None:
            raise TrainingError(f"optimizer state: expected tensors of the model's parameters, found {name}")
        if key in _MOMENTS and tensor.shape != parameter.shape:
            raise TrainingError(
                f"optimizer state {name}: expected shape {tuple(parameter.shape)}, found {tuple(tensor.shape)}"
            )
        # The step count stays where the optimizer keeps it; the moments live beside their parameter. `empty_like`
        # gives them the alignment of a fresh run, on which the last bit of vectorized arithmetic can depend.
        home = torch.empty_like(parameter) if key in _MOMENTS else torch.empty_like(tensor, device=parameter.device)
        optimizer.state[parameter][key] = home.detach().copy_(tensor)
