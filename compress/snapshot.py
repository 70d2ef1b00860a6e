"""The weights of a model at one moment, to go back to."""

from torch import nn

__all__ = ["Snapshot"]


class Snapshot:
    """A copy of a model's state.

    Args:
        model: The model; its parameters and buffers are copied.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._state = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def restore(self) -> None:
        """Give the model the state that it had."""
        self._model.load_state_dict(self._state)
