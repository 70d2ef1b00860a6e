"""Operators of ExecuTorch programs."""

import pytest
import torch

from lite_nlp.export.runtime.quiet import quiet_libraries

pytest.importorskip("tools", reason="the Android demo is not here")


from tools.base.errors import BuildError
from tools.checks.operators import list_operators


def test_operators_of_a_program() -> None:
    exir = pytest.importorskip("executorch.exir")

    class Clamp(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cumsum(torch.clamp(x, 0.0, 1.0), 0)

    with quiet_libraries():
        exported = torch.export.export(Clamp(), (torch.zeros(3),))
        program = exir.to_edge(exported).to_executorch().buffer
    assert list_operators(bytes(program)) == {
        "methods": {"forward": {"operators": ["aten::clamp.out", "aten::cumsum.out"], "backends": []}}
    }


@pytest.mark.parametrize("content", [b"", b"no program at all" * 4, b"\0\0\0\x70ET12" + b"\x70" * 60])
def test_operators_of_something_else(content: bytes) -> None:
    pytest.importorskip("executorch.exir")
    with pytest.raises(BuildError, match=r"expected an? .*ExecuTorch program"):
        list_operators(content)
