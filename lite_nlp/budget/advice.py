"""What would bring a model under its limits: which dimension, to what largest value. Imports no torch.

Every change named here was tried: the changed config is validated like any other and counted by the same closed form,
so its figures are exact.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from pydantic import ValidationError

from lite_nlp.budget.formulas import ModelCount, count_model
from lite_nlp.budget.limits import Limits, Verdict, check_budget, name_quantity
from lite_nlp.data.vocabulary import SPECIAL_TOKENS
from lite_nlp.models.config import ModelConfig

__all__ = ["Advice", "Change", "Compression", "Resize", "advise", "describe_excess"]

#: How many of the largest parts, and of the possible changes, a message names.
_NAMED_PARTS: Final = 3
_NAMED_CHANGES: Final = 5

#: Every tokenizer holds the bytes and the special tokens.
_LEAST_VOCABULARY: Final = 256 + len(SPECIAL_TOKENS)

_BITS_PER_BYTE: Final = 8


@dataclass(frozen=True, kw_only=True)
class Change:
    """A new value of one config key.

    Attributes:
        key: The key with its section, such as ``model.embed_dim``.
        before: The value now.
        after: The value advised.
        follows: Whether it changes only because another key does.
    """

    key: str
    before: int | tuple[int, ...]
    after: int | tuple[int, ...]
    follows: bool = False

    @property
    def override(self) -> str:
        """The change as ``--set`` takes it."""
        after = list(self.after) if isinstance(self.after, tuple) else self.after
        return f"{self.key}={after}"


@dataclass(frozen=True, kw_only=True)
class Resize:
    """Smaller dimensions that bring Mult-Adds and parameters under their limits.

    Attributes:
        changes: Keys to change: the dimensions, then what follows them.
        dimensions: How many dimensions are changed: 1, or 2 where none suffices alone.
        kept: The fraction of the dimension that is left; of two dimensions the product.
        macs: Mult-Adds then, in the ``paper`` convention.
        params: Parameters then, counted as the limits count them.
    """

    changes: tuple[Change, ...]
    dimensions: int
    kept: Fraction
    macs: int
    params: int

    @property
    def overrides(self) -> tuple[str, ...]:
        """The changes as ``--set`` takes them."""
        return tuple(change.override for change in self.changes)

    def describe(self) -> str:
        """One line for people."""
        changed = ", ".join(
            f"{change.key} {change.before} -> {change.after}" for change in self.changes if not change.follows
        )
        followers = " and ".join(change.override for change in self.changes if change.follows)
        following = f" (with {followers})" if followers else ""
        return f"{changed}{following}: {self.macs:,} Mult-Adds, {self.params:,} parameters"

    def to_json(self) -> dict[str, Any]:
        """The same for scripts; ``set`` holds the arguments of ``--set``."""
        return {"set": list(self.overrides), "macs": self.macs, "params": self.params}


@dataclass(frozen=True, kw_only=True)
class Compression:
    """What a file has to come down to.

    Attributes:
        weights: Parameters in the file, shared ones once.
        found_bytes: Its size.
        max_bytes: The size allowed.
        command: What makes such a file; None for a bundle, which compression leaves as it is.
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
        """One line for people; the bits are rounded down, since they are a bound."""
        hundredths = int(self.bits_per_weight * 100)
        bits = f"{hundredths // 100}.{hundredths % 100:02d}"
        now = _BITS_PER_BYTE * self.found_bytes / self.weights
        needed = f"{self.max_bytes:,} bytes are {bits} bits for each of {self.weights:,} weights, {now:.2f} now"
        if self.command is None:
            return f"{needed}; a bundle holds every weight as fp32 for each runtime, so only a smaller model helps"
        return f"{needed}: {self.command}"

    def to_json(self) -> dict[str, Any]:
        """The same for scripts."""
        return {"bits_per_weight": float(self.bits_per_weight), "command": self.command}


Advice = Resize | Compression


@dataclass(frozen=True)
class _Dimension:
    """Keys that are bounded by one value together, and the least value that still makes a model."""

    keys: tuple[str, ...]
    least: int = 1


#: What can be made smaller; a key that is 0 stands for another one, or for nothing, and has no smaller value.
_EMBED_DIM: Final = _Dimension(("embed_dim",))
_LAYERS: Final = _Dimension(("num_encoder_layers", "num_decoder_layers"))
_DIMENSIONS: Final = (
    _EMBED_DIM,
    _Dimension(("ffn_dim",)),
    _LAYERS,
    _Dimension(("num_encoder_layers",)),
    _Dimension(("num_decoder_layers",)),
    _Dimension(("src_vocab_size", "tgt_vocab_size"), least=_LEAST_VOCABULARY),
    _Dimension(("embedding_dim",)),
    _Dimension(("sandwich_dim",)),
    _Dimension(("sandwich_ffn_dim",)),
    _Dimension(("linear_rank",)),
    _Dimension(("self_feature_size", "cross_feature_size")),
)

#: Lists with one entry per layer.
_PER_LAYER: Final = {"num_encoder_layers": "kernel_sizes", "num_decoder_layers": "decoder_kernel_sizes"}


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
    """What would bring a model under every limit that it exceeds.

    Mult-Adds and parameters: for each dimension the largest value with which both are within their limits, everything
    else as it is. Some things follow: ``ffn_dim`` stays the whole multiple of ``embed_dim`` that it is, an equal
    ``embedding_dim`` stays equal, and lists of kernel sizes lose their last entries with the layers. Only values that
    the config accepts are tried. If no dimension suffices alone, the pair of ``embed_dim`` and layers of which most is
    kept.

    Args:
        model: The architecture counted.
        limits: What it was held against.
        verdicts: From :func:`~lite_nlp.budget.limits.check_budget`.
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
        trial = _Trial(model, limits, src_len=src_len, tgt_len=tgt_len)
        singles = [resize for dimension in _DIMENSIONS if (resize := trial.largest(dimension))]
        singles.sort(key=lambda resize: -resize.kept)
        pair = None if singles else trial.best_pair()
        advice.extend([pair] if pair else singles)
    if size := exceeded.get("size_bytes"):
        weights = count_model(model, src_len=src_len, tgt_len=tgt_len).params_total
        command = f"lite-nlp compress {shlex.quote(target)} --target-size {_format_size(size.limit)} --out DIR"
        advice.append(
            Compression(
                weights=weights, found_bytes=size.found, max_bytes=size.limit, command=None if bundle else command
            )
        )
    return tuple(advice)


def describe_excess(
    target: str, count: ModelCount, limits: Limits, verdicts: Sequence[Verdict], advice: Sequence[Advice]
) -> str:
    """What is over its limit, the parts that weigh most in it, and what would bring it under, in a few lines."""
    lines = [f"over budget: {target}, {count.src_len} -> {count.tgt_len} tokens"]
    exceeded = [verdict for verdict in verdicts if not verdict.within]
    lines.extend(f"  {_describe_verdict(verdict, limits)}" for verdict in exceeded)
    resizes = [item for item in advice if isinstance(item, Resize)]
    if any(verdict.quantity != "size_bytes" for verdict in exceeded):
        lines.append(_introduce(resizes))
        lines.extend(f"  {resize.describe()}" for resize in resizes[:_NAMED_CHANGES])
    for item in advice:
        if isinstance(item, Compression):
            lines.extend(("the file size needs:", f"  {item.describe()}"))
    return "\n".join(lines)


def _describe_verdict(verdict: Verdict, limits: Limits) -> str:
    line = f"{name_quantity(verdict, limits)}: {verdict.found:,} found, at most {verdict.limit:,} allowed"
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


class _Trial:
    """Tries smaller dimensions of one model against the limits."""

    def __init__(self, model: ModelConfig, limits: Limits, *, src_len: int, tgt_len: int) -> None:
        self._before: Mapping[str, Any] = model.model_dump()
        self._limits = limits
        self._lengths = {"src_len": src_len, "tgt_len": tgt_len}

    def largest(self, dimension: _Dimension) -> Resize | None:
        """The largest bound of one dimension that suffices."""
        now = self._now(dimension)
        bound = _largest(dimension.least, now - 1, lambda bound: self._suffices(self._bounded((dimension, bound))))
        return None if bound is None else self._resize((dimension, bound))

    def best_pair(self) -> Resize | None:
        """The bounds of ``embed_dim`` and of the layers that suffice together and keep most of both."""
        return max(self._pairs(), key=lambda resize: resize.kept, default=None)

    def _pairs(self) -> Iterator[Resize]:
        def judged(width: int) -> bool | None:
            return self._suffices(self._bounded((_LAYERS, layers), (_EMBED_DIM, width)))

        for layers in range(1, self._now(_LAYERS)):
            width = _largest(_EMBED_DIM.least, self._now(_EMBED_DIM) - 1, judged)
            if width is not None:
                yield self._resize((_EMBED_DIM, width), (_LAYERS, layers))

    def _now(self, dimension: _Dimension) -> int:
        """The dimension's value: the largest of its keys."""
        values: list[int] = [self._before[key] for key in dimension.keys]
        return max(values)

    def _bounded(self, *bounds: tuple[_Dimension, int]) -> dict[str, Any]:
        """The config with each dimension at most as large as its bound, and what follows from that."""
        after = dict(self._before)
        for dimension, bound in bounds:
            for key in dimension.keys:
                after[key] = min(after[key], bound)
        times, rest = divmod(self._before["ffn_dim"], self._before["embed_dim"])
        if after["embed_dim"] < self._before["embed_dim"] and rest == 0:
            after["ffn_dim"] = times * after["embed_dim"]
        if self._before["embedding_dim"] == self._before["embed_dim"]:
            after["embedding_dim"] = min(after["embedding_dim"], after["embed_dim"])
        for layers, sizes in _PER_LAYER.items():
            after[sizes] = after[sizes][: after[layers]]
        return after

    def _suffices(self, content: Mapping[str, Any]) -> bool | None:
        """Whether the changed model is within the limits; None if there is no such model."""
        try:
            model = ModelConfig.model_validate(content)
        except ValidationError:
            return None
        return all(verdict.within for verdict in self._judge(model))

    def _judge(self, model: ModelConfig) -> Sequence[Verdict]:
        return check_budget(count_model(model, **self._lengths), self._limits)

    def _resize(self, *bounds: tuple[_Dimension, int]) -> Resize:
        after = self._bounded(*bounds)
        found = {verdict.quantity: verdict.found for verdict in self._judge(ModelConfig.model_validate(after))}
        chosen = [key for dimension, _ in bounds for key in dimension.keys]
        changed = [key for key, value in self._before.items() if after[key] != value]
        kept = Fraction(1)
        for dimension, bound in bounds:
            kept *= Fraction(bound, self._now(dimension))
        return Resize(
            changes=tuple(
                Change(key=f"model.{key}", before=self._before[key], after=after[key], follows=key not in chosen)
                for key in sorted(
                    changed, key=lambda key: (key not in chosen, chosen.index(key) if key in chosen else 0)
                )
            ),
            dimensions=len(bounds),
            kept=kept,
            macs=found["macs"],
            params=found["params"],
        )


def _largest(low: int, high: int, judge: Callable[[int], bool | None]) -> int | None:
    """The largest value from ``low`` to ``high`` that ``judge`` accepts, or None.

    By bisection, since costs grow with every dimension; values that make no model (None) are passed over downwards.
    """
    best = None
    while low <= high:
        middle = (low + high) // 2
        probe, verdict = middle, judge(middle)
        while verdict is None and probe > low:
            probe -= 1
            verdict = judge(probe)
        if verdict is None:
            low = middle + 1
        elif verdict:
            best, low = probe, middle + 1
        else:
            high = probe - 1
    return best


def _format_size(size: int) -> str:
    """Bytes as ``--target-size`` takes them, in the largest unit that is exact."""
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "KB")):
        if size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
