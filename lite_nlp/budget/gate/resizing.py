"""Smaller dimensions that bring a model under its limits, found by trying them. Imports no torch.

A changed config is validated like any other and counted by the same closed form, so its figures are exact.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from lite_nlp.budget.closed_form.formulas import ModelCount, count_config
from lite_nlp.budget.gate.limits import Limits, Verdict, check_limits
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.core.special_tokens import SPECIAL_TOKENS

__all__ = ["Change", "PredictSize", "Resize", "find_resizes"]

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
    """Smaller dimensions that bring every figure under its limit.

    Attributes:
        changes: Keys to change: the dimensions, then what follows them.
        dimensions: How many dimensions are changed: 1, or 2 where none suffices alone.
        kept: The fraction of the dimension that is left; of two dimensions the product.
        macs: Mult-Adds then, in the ``paper`` convention.
        params: Parameters then, counted as the limits count them.
        size_bytes: Expected size of the file then; None where it plays no part.
    """

    changes: tuple[Change, ...]
    dimensions: int
    kept: Fraction
    macs: int
    params: int
    size_bytes: int | None = None

    @property
    def overrides(self) -> tuple[str, ...]:
        """The changes as ``--set`` takes them."""
        return tuple(change.override for change in self.changes)

    def describe(self, *, vocabulary_of_data: bool = False) -> str:
        """Describe the change in one line.

        Args:
            vocabulary_of_data: Whether the vocabulary is that of a data directory, which no key of the config changes.
        """
        chosen = [change for change in self.changes if not change.follows]
        # One joint vocabulary: two keys, one command.
        changed = ", ".join(
            dict.fromkeys(
                f"data prepare --vocab-size {change.after}"
                if vocabulary_of_data and change.key.removeprefix("model.") in _VOCABULARY.keys
                else f"{change.key} {change.before} -> {change.after}"
                for change in chosen
            )
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

#: Values of the other dimension of a pair that are tried at most, about: layers are fewer, types are more.
_TRIED: Final = 64

#: No config accepts it.
_NO_WIDTH: Final = -1

#: The expected size in bytes of the file of a model with these counts.
PredictSize = Callable[[ModelConfig, ModelCount], int]

#: Lists with one entry per layer.
_PER_LAYER: Final = {"num_encoder_layers": "kernel_sizes", "num_decoder_layers": "decoder_kernel_sizes"}


def find_resizes(
    model: ModelConfig, limits: Limits, *, src_len: int, tgt_len: int, size_of: PredictSize | None = None
) -> tuple[Resize, ...]:
    """Find changes of one dimension that bring Mult-Adds and parameters under their limits.

    For each dimension the largest value that suffices, everything else as it is, except what has to follow it:
    ``ffn_dim`` stays the whole multiple of ``embed_dim`` that it is, the widths inside a sandwich keep their ratio to
    it, that of the tables keeps it rounded down, lists of kernel sizes lose their last entries with the layers,
    and adaptive tables those that a smaller vocabulary does not reach.

    Args:
        model: The architecture.
        limits: What it is held against; a limit on a file's size plays a part with ``size_of`` alone.
        src_len: Source tokens counted.
        tgt_len: Target tokens counted.
        size_of: The expected size of the file of a model.

    Returns:
        The change that keeps most of its dimension first. If no dimension suffices alone, the pair of ``embed_dim``
        and layers of which most is kept; empty if that does not suffice either. With ``size_of`` the pair is there
        in any case, and after it that of ``embed_dim`` and vocabulary.
    """
    trial = _Trial(model, limits, src_len=src_len, tgt_len=tgt_len, size_of=size_of)
    singles = [resize for dimension in trial.dimensions() if (resize := trial.largest(dimension))]
    singles.sort(key=lambda resize: -resize.kept)
    if singles and size_of is None:
        return tuple(singles)
    pairs = [trial.best_pair(_LAYERS)]
    if size_of is not None:
        pairs.append(trial.best_pair(_VOCABULARY))
    return (*singles, *(pair for pair in pairs if pair))


class _Trial:
    """A search for smaller dimensions of one model that meet the limits."""

    def __init__(
        self, model: ModelConfig, limits: Limits, *, src_len: int, tgt_len: int, size_of: PredictSize | None
    ) -> None:
        self._before: Mapping[str, Any] = model.model_dump()
        self._limits = limits
        self._lengths = {"src_len": src_len, "tgt_len": tgt_len}
        self._size_of = size_of

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
        bound = _largest(
            dimension.least,
            now - 1,
            lambda bound: self._suffices(self._bounded((dimension, bound))),
            unit=self._unit(dimension),
        )
        return None if bound is None else self._resize((dimension, bound))

    def best_pair(self, dimension: _Dimension) -> Resize | None:
        """The bounds of ``embed_dim`` and of another dimension that suffice together and keep most of both.

        Where the size of a file decides, nearly all of a vocabulary and a sliver of the width would often keep most by
        the product; there the dimension that is left with less is to keep as much as it can.
        """
        pairs = self._pairs(self._present(dimension))
        if self._size_of is None:
            return max((resize for _, resize in pairs), key=lambda resize: resize.kept, default=None)
        return max(pairs, key=lambda pair: (pair[0], pair[1].kept), default=(Fraction(0), None))[1]

    def _pairs(self, other: _Dimension) -> Iterator[tuple[Fraction, Resize]]:
        """Pairs that suffice, each with the smaller of the fractions that are left of both."""
        width_now, now = self._now(_EMBED_DIM), self._now(other)
        unit = self._unit(_EMBED_DIM)
        for bound in _bounds(other.least, now - 1):

            def judged(width: int, bound: int = bound) -> bool | None:
                return self._suffices(self._bounded((other, bound), (_EMBED_DIM, width)))

            width = _largest(_EMBED_DIM.least, width_now - 1, judged, unit=unit)
            if width is not None:
                least = min(Fraction(width, width_now), Fraction(bound, now))
                yield least, self._resize((_EMBED_DIM, width), (other, bound))

    def _unit(self, dimension: _Dimension) -> int:
        """What the smaller values are multiples of, as those of a width are of the number of heads.

        It divides the present value too, so it is the smallest divisor of that by which the value can fall.
        """
        now = self._now(dimension)
        falls = (fall for fall in range(1, now - dimension.least + 1) if now % fall == 0)
        return next((fall for fall in falls if self._is_model(self._bounded((dimension, now - fall)))), max(1, now))

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

    def _is_model(self, content: Mapping[str, Any]) -> bool:
        return self._parsed(content) is not None

    def _parsed(self, content: Mapping[str, Any]) -> ModelConfig | None:
        try:
            return parse_model(content)
        except ConfigError:
            return None

    def _suffices(self, content: Mapping[str, Any]) -> bool | None:
        """Whether the changed model is within the limits; None if there is no such model."""
        model = self._parsed(content)
        if model is None:
            return None
        return all(verdict.within for verdict in self._judge(model))

    def _judge(self, model: ModelConfig) -> Sequence[Verdict]:
        count = count_config(model, **self._lengths)
        size_bytes = None if self._size_of is None else self._size_of(model, count)
        return check_limits(count, self._limits, size_bytes=size_bytes)

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
            size_bytes=found.get("size_bytes"),
        )


def _bounds(low: int, high: int) -> list[int]:
    """The values from one to another that are tried in a pair: all of a few, else so many evenly spread."""
    return list(range(low, high + 1, max(1, -(-(high - low) // _TRIED))))


def _largest(low: int, high: int, judge: Callable[[int], bool | None], *, unit: int) -> int | None:
    """The largest multiple of ``unit`` from ``low`` to ``high`` that ``judge`` accepts, or None.

    By bisection, since costs grow with every dimension; values that make no model (None) are passed over downwards.
    """
    best = None
    low, high = -(-low // unit), high // unit
    while low <= high:
        middle = (low + high) // 2
        probe, verdict = middle, judge(middle * unit)
        while verdict is None and probe > low:
            probe -= 1
            verdict = judge(probe * unit)
        if verdict is None:
            low = middle + 1
        elif verdict:
            best, low = probe, middle + 1
        else:
            high = probe - 1
    return None if best is None else best * unit
