"""What of a program XNNPACK gets."""

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

from lite_nlp.export import executorch_lowering
from lite_nlp.export.runtime.quiet import quiet_libraries


class Scaled(nn.Module):
    """Rows of a table that is computed of constants, and a product with what is given."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scales", torch.arange(6.0))
        self.output = nn.Linear(4, 6)

    def forward(self, tokens: Tensor, x: Tensor) -> Tensor:
        table = torch.relu(self.scales * self.scales - self.scales).reshape(-1, 1)
        return nn.functional.embedding(tokens, table) + self.output(x)


def delegated(module: nn.Module) -> list[set[str]]:
    """Of each call of XNNPACK what the nodes are that it takes: ``input``, ``constant`` or ``value``."""
    inputs = (torch.tensor([1, 2]), torch.ones(2, 4))
    with quiet_libraries(), torch.no_grad():
        lowered = executorch_lowering.lower_programs({"forward": export(module.eval(), inputs).run_decompositions({})})
    program = lowered.exported_program("forward")
    given = set(program.graph_signature.user_inputs)
    kinds = []
    for node in program.graph.nodes:
        if node.op == "call_function" and "call_delegate" in str(node.target):
            taken = [one for one in node.args[1:] if isinstance(one, torch.fx.Node)]
            kinds.append(
                {"value" if one.op != "placeholder" else "input" if one.name in given else "constant" for one in taken}
            )
    return kinds


def test_no_part_is_of_constants_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    found = delegated(Scaled())
    assert found
    assert all(kinds - {"constant"} for kinds in found)
    # XNNPACK's own choice has such a part, or this would prove nothing.
    monkeypatch.setattr(executorch_lowering, "_leave_constants", lambda partition, program: partition(program))
    assert not all(kinds - {"constant"} for kinds in delegated(Scaled()))
