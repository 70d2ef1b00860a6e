"""Advice for a model over its limits, and the message about it. Imports no torch."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, Verdict
from lite_nlp.budget.gate.resizing import Resize, find_resizes
from lite_nlp.config.model import ModelConfig

__all__ = ["Advice", "Compression", "advise", "describe_excess", "list_excesses"]

#: How many of the largest parts, and of the possible changes, a message names.
_NAMED_PARTS: Final = 3
_NAMED_CHANGES: Final = 5

_BITS_PER_BYTE: Final = 8


@dataclass(frozen=True, kw_only=True)
class Compression:
    """The compression that a file needs to meet its limit.

    Attributes:
        weights: Parameters in the file, shared ones once.
        found_bytes: Its size.
        max_bytes: The size allowed.
        command: What makes such a file; None for a bundle, which compression does not write.
    """

    weights: int
    found_bytes: int
    max_bytes: int
    command: str | None

    @property
    def bits_per_weight(self) -> Fraction:
        """The most bits that a weight may take, everything else in the file included."""
        return Fraction(_BITS_PER_BYTE * self.max_bytes, self.weights)

    def describe(self) -> str:
        """Describe the need in one line; the bits are rounded down, since they are a bound."""
        hundredths = int(self.bits_per_weight * 100)
        bits = f"{hundredths // 100}.{hundredths % 100:02d}"
        now = _BITS_PER_BYTE * self.found_bytes / self.weights
        needed = f"{self.max_bytes:,} bytes are {bits} bits for each of {self.weights:,} weights, {now:.2f} now"
        if self.command is None:
            return f"{needed}: lite-nlp export --compact of a .lnlp file that is small enough, or a smaller model"
        return f"{needed}: {self.command}"

    def to_json(self) -> dict[str, Any]:
        """The need as JSON."""
        return {"bits_per_weight": float(self.bits_per_weight), "command": self.command}


Advice = Resize | Compression


def advise(
    model: ModelConfig,
    limits: Limits,
    verdicts: Sequence[Verdict],
    *,
    src_len: int,
    tgt_len: int,
    target: str = "MODEL",
    bundle: bool = False,
) -> tuple[Advice, ...]:
    """Find changes that bring a model under every limit that it exceeds.

    For Mult-Adds and parameters what :func:`~lite_nlp.budget.gate.resizing.find_resizes` finds, for a file's size the
    bits that are left for each weight.

    Args:
        model: The architecture counted.
        limits: What it was held against.
        verdicts: From :func:`~lite_nlp.budget.gate.limits.check_limits`.
        src_len: Source tokens counted.
        tgt_len: Target tokens counted.
        target: How the model is named on a command line.
        bundle: Whether the file weighed is a bundle, which ``compress`` does not write.

    Returns:
        The change that keeps most of its dimension first, then what a file's size asks for; empty if every figure
        is within its limit, or nothing tried suffices.
    """
    advice: list[Advice] = []
    exceeded = {verdict.quantity: verdict for verdict in verdicts if not verdict.within}
    if exceeded.keys() & {"macs", "params"}:
        advice.extend(find_resizes(model, limits, src_len=src_len, tgt_len=tgt_len))
    if size := exceeded.get("size_bytes"):
        weights = count_config(model, src_len=src_len, tgt_len=tgt_len).params_total
        command = f"lite-nlp compress {shlex.quote(target)} --target-size {_format_size(size.limit)} --out DIR"
        advice.append(
            Compression(
                weights=weights, found_bytes=size.found, max_bytes=size.limit, command=None if bundle else command
            )
        )
    return tuple(advice)


def describe_excess(
    target: str,
    lengths: str,
    verdicts: Sequence[Verdict],
    advice: Sequence[Advice],
    *,
    vocabulary_of_data: bool = False,
) -> str:
    """Describe a model over budget: the excesses and the changes that would bring it under.

    Args:
        target: How the message names the model.
        lengths: The tokens counted, such as ``30 -> 30``.
        verdicts: From :func:`~lite_nlp.budget.gate.limits.check_limits`.
        advice: From :func:`advise`.
        vocabulary_of_data: Whether the vocabulary is that of a data directory, which ``data prepare`` makes smaller.
    """
    lines = [f"over budget: {target}, {lengths} tokens", *list_excesses(verdicts)]
    resizes = [item for item in advice if isinstance(item, Resize)]
    if any(verdict.quantity != "size_bytes" for verdict in verdicts if not verdict.within):
        lines.append(_introduce(resizes))
        lines.extend(
            f"  {resize.describe(vocabulary_of_data=vocabulary_of_data)}" for resize in resizes[:_NAMED_CHANGES]
        )
    for item in advice:
        if isinstance(item, Compression):
            lines.extend(("the file size needs:", f"  {item.describe()}"))
    return "\n".join(lines)


def list_excesses(verdicts: Sequence[Verdict]) -> list[str]:
    """Describe each figure over its limit in a line, with the parts that cost most."""
    return [f"  {_describe_verdict(verdict)}" for verdict in verdicts if not verdict.within]


def _describe_verdict(verdict: Verdict) -> str:
    line = f"{verdict.name}: {verdict.found:,} found, at most {verdict.limit:,} allowed"
    largest = ", ".join(
        f"{part} {number:,} ({number / verdict.found:.0%})" for part, number in verdict.contributors[:_NAMED_PARTS]
    )
    return f"{line}; largest: {largest}" if largest else line


def _introduce(resizes: Sequence[Resize]) -> str:
    if not resizes:
        return "no single dimension brings Mult-Adds and parameters under, nor embed_dim and the layers together"
    if resizes[0].dimensions > 1:
        return "no single dimension brings Mult-Adds and parameters under; two together do:"
    return "any one of these changes brings Mult-Adds and parameters under:"


def _format_size(size: int) -> str:
    """Bytes as ``--target-size`` takes them, in the largest unit that is exact."""
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
