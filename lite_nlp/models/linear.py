"""The family of Linear layers: dense, R2D2, quaternion and low-rank.

Shape letters: d inputs, k outputs, n Kronecker factors, r rank. All kinds map (..., d) to (..., k) and have the
attributes ``in_features``, ``out_features`` and ``bias`` of ``nn.Linear``.

R2D2 and quaternion layers hold fewer parameters than the k x d weight H that they represent. In training mode H is
built anew in each call, or (R2D2) replaced by its factors where those take fewer Mult-Adds. In evaluation mode without
gradients the built weight is kept, so that a call costs as much as a dense layer's; see ``BuiltLinear``.
"""

from typing import Final, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.config.kinds import DENSE, LinearSpec
from lite_nlp.core.errors import ModelError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.models.built_linear import BuiltLinear, is_traced
from lite_nlp.models.roles import Role, mark

__all__ = [
    "LINEAR_BUILDERS",
    "FactorizedLinear",
    "LinearBuilder",
    "LowRankLinear",
    "QuaternionLinear",
    "R2D2Linear",
    "build_fused_linear",
    "build_linear",
    "dense_linear",
]


class FactorizedLinear(Protocol):
    """What every kind but a dense ``nn.Linear`` offers, so that a Linear that follows can be merged into it."""

    in_features: int
    out_features: int

    @property
    def bias(self) -> Tensor | None:
        """(k,), or None."""
        ...

    @property
    def macs(self) -> int:
        """Mult-Adds per row in inference."""
        ...

    def build_weight(self) -> Tensor:
        """The weight (k, d) of the dense layer that computes the same."""
        ...


class LinearBuilder(Protocol):
    """Constructor of one kind."""

    def __call__(self, in_features: int, out_features: int, *, spec: LinearSpec, bias: bool) -> nn.Module:
        """A layer whose parameters are allocated; ``initialisation`` draws them."""
        ...


def dense_linear(in_features: int, out_features: int, *, role: Role, bias: bool = True) -> nn.Linear:
    """A dense Linear with a role."""
    return mark(nn.Linear(in_features, out_features, bias=bias), role, inputs=in_features, outputs=out_features)


class R2D2Linear(BuiltLinear):
    """y = H x + b with H the sum over m of kron(A'_m, S'_m): n^3 + k d / n weights (R2D2, equations 2.2 to 2.4).

    In the paper's letters ``diffusion[i]`` is A_i, (n, n), and column j of ``components[m]`` is row m of S_j, so that
    A'_m[p, i] = A_i[p, m], S'_m = ``components[m]``, and

        H[p * k/n + q, i * d/n + j] = sum over m of diffusion[i, p, m] * components[m, q, j].

    Args:
        in_features: Inputs d.
        out_features: Outputs k.
        n: Kronecker factors, a divisor of both; with 1, H is a scalar times a dense weight.
        bias: Whether a bias is added.
    """

    def __init__(self, in_features: int, out_features: int, *, n: int, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias=bias)
        if n < 1 or in_features % n or out_features % n:
            raise ValueError(
                f"R2D2 layer of {in_features} -> {out_features} features: expected n to divide both, found {n}"
            )
        self.n = n
        self.diffusion = nn.Parameter(torch.zeros(n, n, n))
        self.components = nn.Parameter(torch.zeros(n, out_features // n, in_features // n))

    def factors(self) -> tuple[nn.Parameter, ...]:
        """A and S."""
        return self.diffusion, self.components

    def build_weight(self) -> Tensor:
        """H (k, d), for n k d Mult-Adds."""
        n, outputs, inputs = self.components.shape
        mixing = self.diffusion.transpose(0, 1).reshape(n * n, n)  # (p i, m)
        blocks = torch.matmul(mixing, self.components.view(n, outputs * inputs))  # (p i, q j)
        return blocks.view(n, n, outputs, inputs).transpose(1, 2).reshape(self.out_features, self.in_features)

    def apply_factors(self, x: Tensor) -> Tensor:
        """H ``x`` without building H, for k d + n^2 min(d, k) Mult-Adds per row; no bias."""
        n, outputs, inputs = self.components.shape
        rows = x.numel() // self.in_features
        blocks = x.reshape(rows, n, inputs)  # (R, i, j)
        if self.out_features <= self.in_features:
            # S first, A on the narrower side.
            columns = self.components.view(n * outputs, inputs).t()  # (j, m q)
            spread = torch.matmul(blocks, columns).view(rows, n * n, outputs)  # (R, i m, q)
            y = torch.matmul(self.diffusion.permute(1, 0, 2).reshape(n, n * n), spread)  # (R, p, q)
        else:
            mixing = self.diffusion.permute(1, 2, 0).reshape(n * n, n)  # (p m, i)
            spread = torch.matmul(mixing, blocks).view(rows, n, n * inputs)  # (R, p, m j)
            y = torch.matmul(spread, self.components.transpose(1, 2).reshape(n * inputs, outputs))  # (R, p, q)
        return y.reshape(*x.shape[:-1], self.out_features)

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` (..., d) to (..., k), in the order of evaluation that takes fewer Mult-Adds."""
        weight = self._kept_weight(x)
        if weight is None and self._factors_are_cheaper(x):
            y = self.apply_factors(x)
            return y if self.bias is None else y + self.bias
        return F.linear(x, self.build_weight() if weight is None else weight, self.bias)

    def _factors_are_cheaper(self, x: Tensor) -> bool:
        # Both orders apply k d per row; building adds n k d once and the factors add n^2 min(d, k) per row.
        # A traced call has no number of rows to compare.
        return not is_traced(x) and x.numel() // self.in_features * self.n < max(self.in_features, self.out_features)


class QuaternionLinear(BuiltLinear):
    """The Hamilton product of a quaternion of weights with one of inputs, k d / 4 weights (R2D2, equation 2.6).

    ``components`` holds the weight's parts r, x, y, z, (k/4, d/4) each; the inputs' and outputs' parts are the quarters
    of the channels. Building H only rearranges the parts, so that one order of evaluation is enough.

    Args:
        in_features: Inputs d, a multiple of 4.
        out_features: Outputs k, a multiple of 4.
        bias: Whether a bias is added.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__(in_features, out_features, bias=bias)
        if in_features % 4 or out_features % 4:
            raise ValueError(
                f"quaternion layer: expected multiples of 4, found {in_features} -> {out_features} features"
            )
        self.components = nn.Parameter(torch.zeros(4, out_features // 4, in_features // 4))

    def factors(self) -> tuple[nn.Parameter, ...]:
        """The four parts, as one parameter."""
        return (self.components,)

    def build_weight(self) -> Tensor:
        """H (k, d), without Mult-Adds."""
        r, x, y, z = self.components
        rows = ([r, -x, -y, -z], [x, r, -z, y], [y, z, r, -x], [z, -y, x, r])
        return torch.cat([torch.cat(row, dim=1) for row in rows])


class LowRankLinear(nn.Module):
    """Two Linears with r channels between them and no activation: r (d + k) weights ("Factorized" in R2D2, table 2).

    Args:
        in_features: Inputs d.
        out_features: Outputs k.
        rank: r, within 1..min(d, k).
        bias: Whether a bias is added to the output.
    """

    def __init__(self, in_features: int, out_features: int, *, rank: int, bias: bool = True) -> None:
        super().__init__()
        if not 1 <= rank <= min(in_features, out_features):
            raise ValueError(
                f"low-rank layer of {in_features} -> {out_features} features: expected a rank within "
                f"1..{min(in_features, out_features)}, found {rank}"
            )
        self.in_features = in_features
        self.out_features = out_features
        self.down_proj = nn.Linear(in_features, rank, bias=False)
        self.up_proj = nn.Linear(rank, out_features, bias=bias)

    @property
    def bias(self) -> Tensor | None:
        """The bias (k,), if there is one."""
        return self.up_proj.bias

    @property
    def macs(self) -> int:
        """Mult-Adds per row, r (d + k)."""
        return self.down_proj.weight.numel() + self.up_proj.weight.numel()

    def build_weight(self) -> Tensor:
        """The product (k, d) of both weights."""
        return self.up_proj.weight @ self.down_proj.weight

    def forward(self, x: Tensor) -> Tensor:
        """Map ``x`` (..., d) to (..., k)."""
        projected: Tensor = self.up_proj(self.down_proj(x))
        return projected


def _dense(in_features: int, out_features: int, *, spec: LinearSpec, bias: bool) -> nn.Module:
    return nn.Linear(in_features, out_features, bias=bias)


def _r2d2(in_features: int, out_features: int, *, spec: LinearSpec, bias: bool) -> nn.Module:
    return R2D2Linear(in_features, out_features, n=spec.n, bias=bias)


def _quaternion(in_features: int, out_features: int, *, spec: LinearSpec, bias: bool) -> nn.Module:
    return QuaternionLinear(in_features, out_features, bias=bias)


def _low_rank(in_features: int, out_features: int, *, spec: LinearSpec, bias: bool) -> nn.Module:
    return LowRankLinear(in_features, out_features, rank=spec.rank, bias=bias)


#: Constructors by kind, with the keys of ``lite_nlp.config.kinds.LINEAR_KINDS``.
LINEAR_BUILDERS: Final[dict[str, LinearBuilder]] = {
    "dense": _dense,
    "r2d2": _r2d2,
    "quaternion": _quaternion,
    "low-rank": _low_rank,
}


def build_linear(
    in_features: int, out_features: int, spec: LinearSpec = DENSE, *, role: Role, bias: bool = True, parts: int = 1
) -> nn.Module:
    """A Linear of any kind, with a role.

    Args:
        in_features: Inputs d.
        out_features: Outputs k.
        spec: Kind and size.
        role: What it does, which decides how its parameters are drawn.
        bias: Whether a bias is added.
        parts: Number of projections that it computes side by side, each drawn as one of its own.

    Raises:
        ModelError: If no constructor is listed for the kind.
        ValueError: If ``n`` (or a quaternion's four components) does not divide both sizes, or the rank is not within
            1..min(d, k).
    """
    if spec.kind not in LINEAR_BUILDERS:
        raise ModelError(f"linear kind: {expected_one_of(LINEAR_BUILDERS, spec.kind)}")
    linear = LINEAR_BUILDERS[spec.kind](in_features, out_features, spec=spec, bias=bias)
    return mark(linear, role, inputs=in_features, outputs=out_features // parts)


def build_fused_linear(embed_dim: int, inner_dim: int, parts: int, linear: LinearSpec, *, role: Role) -> nn.Module:
    """One Linear for ``parts`` projections of the same input, side by side.

    Fusing also shares an R2D2 layer's A between the parts (R2D2, section 3.2).

    Args:
        embed_dim: Inputs.
        inner_dim: Outputs of each part.
        parts: Number of projections.
        linear: Kind and size.
        role: Role of each part.
    """
    return build_linear(embed_dim, parts * inner_dim, linear, role=role, parts=parts)
