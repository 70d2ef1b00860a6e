"""How a CPU multiplies float32 matrices while training.

PyTorch hands float32 products to MKL, which takes its fast path on Intel's processors alone: elsewhere oneDNN, the
library of PyTorch's bfloat16 products, is up to twice as fast. PyTorch has one switch that hands it float32 products,
which also permits rounding them to bfloat16; on a processor without matrix units oneDNN makes no use of that. The
switch is tried, and kept only where the products are exact to float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, cast

import torch

__all__ = ["exact_products", "fast_arithmetic", "has_bf16_units", "is_intel"]

#: Largest error of a product of ``_PROBE_TERMS`` terms, relative to its largest entry, that float32 explains. Rounding
#: to bfloat16, of 8 bits, gives 1e-3.
_LARGEST_ERROR: Final = 1e-5
_PROBE_TERMS: Final = 256

_CPU_FACTS: Final = Path("/proc/cpuinfo")


@contextmanager
def fast_arithmetic(device: torch.device) -> Iterator[None]:
    """Context in which float32 matrices are multiplied by the faster library, exactly as without it but for rounding.

    The choice depends on the processor alone, not on a measurement of time: a resumed run makes the same one.
    """
    library = cast(Any, torch.backends.mkldnn)
    products = library.matmul
    before = products.fp32_precision
    if device.type != "cpu" or not library.is_available() or before != "none" or is_intel():
        yield
        return
    products.fp32_precision = "bf16"
    try:
        if not exact_products():
            products.fp32_precision = before
        yield
    finally:
        products.fp32_precision = before


def is_intel(facts: Path = _CPU_FACTS) -> bool:
    """Whether the processor is one of Intel's, or unknown."""
    try:
        return "GenuineIntel" in facts.read_text(encoding="utf-8")
    except OSError:
        return True


def has_bf16_units(facts: Path = _CPU_FACTS) -> bool:
    """Whether the processor multiplies bfloat16 by instructions of its own, and so faster than float32.

    A fact of the processor, not a measurement: a resumed tuning decides alike.
    """
    try:
        flags = set(facts.read_text(encoding="utf-8").split())
    except OSError:
        return False
    return not flags.isdisjoint(("avx512_bf16", "amx_bf16"))


def exact_products() -> bool:
    """Whether products of float32 matrices are those of float32 numbers, with and without a bias, batched or not."""
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(4, 64, _PROBE_TERMS, generator=generator)
    right = torch.randn(4, _PROBE_TERMS, 64, generator=generator)
    expected = torch.bmm(left.double(), right.double())
    found = (
        torch.bmm(left, right),
        torch.stack([torch.mm(a, b) for a, b in zip(left, right, strict=True)]),
        torch.stack([torch.addmm(torch.zeros(64), a, b) for a, b in zip(left, right, strict=True)]),
    )
    bound = _LARGEST_ERROR * float(expected.abs().max())
    return all(cast(float, (product - expected).abs().max().item()) < bound for product in found)
