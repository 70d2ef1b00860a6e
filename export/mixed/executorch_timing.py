"""Products as a mixed precision times them in ExecuTorch."""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import Tensor, nn

from lite_nlp.export.executorch_lowering import lower_programs, write_program
from lite_nlp.export.executorch_rewriting import prepare_program
from lite_nlp.export.matrices import Form, ProductShape, Rounding, array_digest
from lite_nlp.export.runtime.executorch_methods import LoadedProgram, execute
from lite_nlp.export.runtime.quiet import quiet_libraries

__all__ = ["executorch_product_call"]

_METHOD: Final = "forward"

#: Products of a program at most, since lowering takes a tenth of a second for each; more are several calls of it, which
#: cost little. A divisor of the numbers that are timed.
_MOST_PRODUCTS: Final = 8


class _Products(nn.Module):
    """The sum of products of one input, weights of their own."""

    def __init__(self, shape: ProductShape, products: int) -> None:
        super().__init__()
        layers = [nn.Linear(shape.inputs, shape.outputs, bias=False) for _ in range(products)]
        self.layers = nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = self.layers[0](x)
        for layer in self.layers[1:]:
            total = total + layer(x)
        return total


def executorch_product_call(shape: ProductShape, products: int, form: Form) -> Callable[[], Any]:
    """A run of a program of products of one input with weights of their own, in ExecuTorch."""
    calls = -(-products // _MOST_PRODUCTS)
    module = _Products(shape, products // calls).eval()
    digests = [array_digest(weight.detach().numpy()) for weight in module.parameters()]
    given = torch.randn(shape.rows, shape.inputs)
    with quiet_libraries(), torch.no_grad():
        traced = torch.export.export(module, (given,))
        rounding = Rounding(precision="mixed", forms=dict.fromkeys(digests, form))
        lowered = lower_programs({_METHOD: prepare_program(traced, rounding=rounding)})
        content = bytes(write_program(lowered, {}).buffer)
    program = LoadedProgram(content, threads=1)
    method = program.method(_METHOD)

    def run(_kept: Any = program) -> Any:
        # A method reads its program.
        for _ in range(calls):
            execute(method, [given])

    return run
