"""The library that multiplies float32 matrices while training."""

from pathlib import Path

import pytest
import torch

from lite_nlp.training import arithmetic
from lite_nlp.training.arithmetic import exact_products, fast_arithmetic, has_bf16_units, is_intel

CPU = torch.device("cpu")


def precision() -> str:
    return torch.backends.mkldnn.matmul.fp32_precision


def on_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arithmetic, "is_intel", lambda: False)


def test_products_are_those_of_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    on_another_processor(monkeypatch)
    left, right = torch.randn(300, 200), torch.randn(200, 100)
    with fast_arithmetic(CPU):
        product = left @ right
    expected = left.double() @ right.double()
    # bfloat16 would be off by 1e-3 of the largest entry.
    assert (product - expected).abs().max() < 1e-5 * expected.abs().max()


def test_the_setting_is_that_from_before_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    on_another_processor(monkeypatch)
    before = precision()
    with pytest.raises(KeyboardInterrupt), fast_arithmetic(CPU):
        raise KeyboardInterrupt
    assert precision() == before


def test_a_library_that_rounds_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    on_another_processor(monkeypatch)
    monkeypatch.setattr(arithmetic, "exact_products", lambda: False)
    before = precision()
    with fast_arithmetic(CPU):
        assert precision() == before


def test_rounded_products_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert exact_products()
    product = torch.bmm

    def rounded(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        if left.dtype == torch.float64:
            return product(left, right)
        return product(left.bfloat16(), right.bfloat16()).float()

    monkeypatch.setattr(torch, "bmm", rounded)
    assert not exact_products()


def test_a_gpu_and_intels_processors_keep_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    before = precision()
    monkeypatch.setattr(arithmetic, "is_intel", lambda: True)
    with fast_arithmetic(CPU):
        assert precision() == before
    on_another_processor(monkeypatch)
    with fast_arithmetic(torch.device("cuda")):
        assert precision() == before


@pytest.mark.parametrize(("vendor", "expected"), [("GenuineIntel", True), ("AuthenticAMD", False)])
def test_the_vendor_is_read(tmp_path: Path, vendor: str, expected: bool) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(f"processor : 0\nvendor_id : {vendor}\n", encoding="utf-8")
    assert is_intel(facts) is expected
    assert is_intel(tmp_path / "none")


@pytest.mark.parametrize(
    ("flags", "known"), [("fma avx512_bf16 sse", True), ("amx_bf16", True), ("avx512_bf16_not", False), (None, False)]
)
def test_units_for_bfloat16_are_a_fact_of_the_processor(tmp_path: Path, flags: str | None, known: bool) -> None:
    if flags is not None:
        (tmp_path / "cpuinfo").write_text(f"flags\t: fpu {flags}\n", encoding="utf-8")
    assert has_bf16_units(tmp_path / "cpuinfo") is known
