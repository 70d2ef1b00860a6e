"""Smaller dimensions that bring a model under its limits, found by trying them. Imports no torch.

A changed config is validated like any other and counted by the same closed form, so its figures are exact.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.limits import Limits, Verdict, check_limits
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.core.special_tokens import SPECIAL_TOKENS

__all__ = ["Change", "Resize", "find_resizes"]

#: Every tokenizer holds the bytes and the special tokens.
_LEAST_VOCABULARY: Final = 256 + len(SPECIAL_TOKENS)


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
        """Describe the change in one line."""
        changed = ", ".join(
            f"{change.key} {change.before} -> {change.after}" for change in self.changes if not change.follows
        )
        followers = " and ".join(change.override for change in self.changes if change.follows)
        following = f" (with {followers})" if followers else ""
        return f"{changed}{following}: {self.macs:,} Mult-Adds, {self.params:,} parameters"

    def to_json(self) -> dict[str, Any]:
        """The change as JSON; ``set`` holds the arguments of ``--set``."""
        return {"set": list(self.overrides), "macs": self.macs, "params": self.params}


@dataclass(frozen=True)
class _Dimension:
    """Keys that are bounded by one value together, and the least value that still makes a model."""

    keys: tuple[str, ...]
    least: int = 1


#: What can be made smaller; a key that is 0 stands for another one, or for nothing, and has no smaller value.
_EMBED_DIM: Final = _Dimension(("embed_dim",))
_LAYERS: Final = _Dimension(("num_encoder_layers", "num_decoder_layers"))
_VOCABULARY: Final = _Dimension(("src_vocab_size", "tgt_vocab_size"), least=_LEAST_VOCABULARY)
_DIMENSIONS: Final = (
    _EMBED_DIM,
    _Dimension(("ffn_dim",)),
    _LAYERS,
    _Dimension(("num_encoder_layers",)),
    _Dimension(("num_decoder_layers",)),
    _VOCABULARY,
    _Dimension(("embedding_dim",)),
    _Dimension(("sandwich_dim",)),
    _Dimension(("sandwich_ffn_dim",)),
    _Dimension(("attention_expansion",)),
    _Dimension(("linear_rank",)),
    _Dimension(("self_feature_size", "cross_feature_size")),
)

#: Widths that keep their ratio to ``embed_dim``; 0 stays 0.
_SANDWICH: Final = ("sandwich_dim", "sandwich_ffn_dim")

#: No config accepts it.
_NO_WIDTH: Final = -1

#: Lists with one entry per layer.
_PER_LAYER: Final = {"num_encoder_layers": "kernel_sizes", "num_decoder_layers": "decoder_kernel_sizes"}


def find_resizes(model: ModelConfig, limits: Limits, *, src_len: int, tgt_len: int) -> tuple[Resize, ...]:
    """Find changes of one dimension that bring Mult-Adds and parameters under their limits.

    For each dimension the largest value that suffices, everything else as it is, except what has to follow it:
    ``ffn_dim`` stays the whole multiple of ``embed_dim`` that it is, the widths inside a sandwich keep their ratio to
    it, that of the tables keeps it rounded down, lists of kernel sizes lose their last entries with the layers,
    and adaptive tables those that a smaller vocabulary does not reach.

    Args:
        model: The architecture.
        limits: What it is held against; a limit on a file's size plays no part.
        src_len: Source tokens counted.
        tgt_len: Target tokens counted.

    Returns:
        The change that keeps most of its dimension first. If no dimension suffices alone, the pair of ``embed_dim``
        and layers of which most is kept; empty if that does not suffice either.
    """
    trial = _Trial(model, limits, src_len=src_len, tgt_len=tgt_len)
    singles = [resize for dimension in trial.dimensions() if (resize := trial.largest(dimension))]
    if not singles:
        pair = trial.best_pair()
        return (pair,) if pair else ()
    return tuple(sorted(singles, key=lambda resize: -resize.kept))


class _Trial:
    """A search for smaller dimensions of one model that meet the limits."""

    def __init__(self, model: ModelConfig, limits: Limits, *, src_len: int, tgt_len: int) -> None:
        self._before: Mapping[str, Any] = model.model_dump()
        self._limits = limits
        self._lengths = {"src_len": src_len, "tgt_len": tgt_len}

    def dimensions(self) -> tuple[_Dimension, ...]:
        """The dimensions of the architecture that can be made smaller, each once."""
        return tuple(dict.fromkeys(present for dimension in _DIMENSIONS if (present := self._present(dimension)).keys))

    def _present(self, dimension: _Dimension) -> _Dimension:
        """The dimension without the keys that mean nothing here; fewer types than the first table has are no use."""
        keys = tuple(key for key in dimension.keys if key in self._before)
        cutoffs = self._before.get("adaptive_cutoffs", ())
        least = cutoffs[0] + 1 if cutoffs and dimension is _VOCABULARY else dimension.least
        return _Dimension(keys, least)

    def largest(self, dimension: _Dimension) -> Resize | None:
        """The largest bound of one dimension that suffices."""
        now = self._now(dimension)
        bound = _largest(dimension.least, now - 1, lambda bound: self._suffices(self._bounded((dimension, bound))))
        return None if bound is None else self._resize((dimension, bound))

    def best_pair(self) -> Resize | None:
        """The bounds of ``embed_dim`` and of the layers that suffice together and keep most of both."""
        return max(self._pairs(), key=lambda resize: resize.kept, default=None)

    def _pairs(self) -> Iterator[Resize]:
        stacks = self._present(_LAYERS)

        def judged(width: int) -> bool | None:
            return self._suffices(self._bounded((stacks, layers), (_EMBED_DIM, width)))

        for layers in range(1, self._now(stacks)):
            width = _largest(_EMBED_DIM.least, self._now(_EMBED_DIM) - 1, judged)
            if width is not None:
                yield self._resize((_EMBED_DIM, width), (stacks, layers))

    def _now(self, dimension: _Dimension) -> int:
        """The dimension's value: the largest of its keys; 0 without one."""
        values: list[int] = [self._before[key] for key in dimension.keys]
        return max(values, default=0)

    def _bounded(self, *bounds: tuple[_Dimension, int]) -> dict[str, Any]:
        """The config with each dimension at most as large as its bound, and what follows from that."""
        after = dict(self._before)
        for dimension, bound in bounds:
            for key in dimension.keys:
                after[key] = min(after[key], bound)
        self._follow_width(after)
        for layers, sizes in _PER_LAYER.items():
            if layers in after:
                after[sizes] = after[sizes][: after[layers]]
        if "adaptive_cutoffs" in after:
            cutoffs = after["adaptive_cutoffs"]
            after["adaptive_cutoffs"] = tuple(cutoff for cutoff in cutoffs if cutoff < after["tgt_vocab_size"])
        return after

    def _follow_width(self, after: dict[str, Any]) -> None:
        """Let other widths follow ``embed_dim``; where one would be no whole number, there is no such model."""
        before, width = self._before["embed_dim"], after["embed_dim"]
        if width == before:
            return
        if self._before["ffn_dim"] % before == 0:
            after["ffn_dim"] = self._before["ffn_dim"] // before * width
        after["embedding_dim"] = self._before["embedding_dim"] * width // before
        for key in _SANDWICH:
            if key not in after:
                continue
            after[key], rest = divmod(self._before[key] * width, before)
            if rest:
                after[key] = _NO_WIDTH

    def _suffices(self, content: Mapping[str, Any]) -> bool | None:
        """Whether the changed model is within the limits; None if there is no such model."""
        try:
            model = parse_model(content)
        except ConfigError:
            return None
        return all(verdict.within for verdict in self._judge(model))

    def _judge(self, model: ModelConfig) -> Sequence[Verdict]:
        return check_limits(count_config(model, **self._lengths), self._limits)

    def _resize(self, *bounds: tuple[_Dimension, int]) -> Resize:
        after = self._bounded(*bounds)
        found = {verdict.quantity: verdict.found for verdict in self._judge(parse_model(after))}
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
