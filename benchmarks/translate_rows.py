"""What ``translate.py`` works on and reports: sentences in batches, the Transformer of equal work, and the rows."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.core.special_tokens import SPECIAL_TOKENS

__all__ = ["CTRANSLATE2", "Contender", "Turn", "batches_of", "describe_rows", "equal_transformer", "random_sources"]

CTRANSLATE2: Final = "ctranslate2"

#: Layers of encoder and decoder, and inner channels, that the Transformer of equal work may have; its width and types
#: are the model's. Multiples of 16 channels suit the kernels of every engine.
_LAYERS: Final = range(1, 13)
_FFN_STEP: Final = 16

#: Of the Mult-Adds.
_TOLERANCE: Final = 0.02

#: Wall and processor time of one turn, in seconds.
Turn = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Contender:
    """An engine with a model.

    Attributes:
        engine: A runtime of bundles, ``torch``, ``torch.onnx.export`` or ``ctranslate2``.
        model: Name of the model.
        config: Its sizes, by which its work is counted.
        precision: Such as ``fp32`` or ``int8``.
        facts: What else tells it apart: ``bundle`` or ``instruction_set``.
    """

    engine: str
    model: str
    config: EncoderDecoderConfig
    precision: str
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """What tells it apart from the others."""
        return " ".join((self.engine, self.precision, *self.facts.values()))


def random_sources(count: int, *, length: int, types: int) -> list[list[int]]:
    """Sources of ``length`` tokens each, of which the end mark is the last and left out here."""
    random = np.random.default_rng(1)
    return random.integers(len(SPECIAL_TOKENS), types, (count, length - 1)).tolist()


def batches_of(sources: Sequence[list[int]], size: int) -> list[list[list[int]]]:
    """The sources in batches of at most ``size``, sorted by length, which saves every engine padding."""
    ordered = sorted(sources, key=len)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]


def equal_transformer(config: EncoderDecoderConfig, *, src_len: int, steps: int, beam: int) -> EncoderDecoderConfig:
    """The Transformer that executes as many Mult-Adds as the model, of the same width and types.

    Of the numbers of layers that get within 2 % it is that whose feed-forward is most nearly as wide as the model.

    Args:
        config: The model.
        src_len: Source tokens, end mark included.
        steps: Decoder steps.
        beam: Hypotheses of a step.

    Raises:
        ValueError: If there is none.
    """
    wanted = _macs(config, src_len, steps, beam)
    found = []
    for layers in _LAYERS:
        # Mult-Adds are a linear function of the feed-forward's width.
        first, second = (
            _macs(_transformer(config, layers, units * _FFN_STEP), src_len, steps, beam) for units in (1, 2)
        )
        units = max(1, 1 + round((wanted - first) / (second - first)))
        near = _transformer(config, layers, units * _FFN_STEP)
        if abs(_macs(near, src_len, steps, beam) - wanted) <= _TOLERANCE * wanted:
            found.append(near)
    if not found:
        raise ValueError(f"Mult-Adds: expected a Transformer of about {wanted:,}, found none of this width")
    return min(found, key=lambda one: abs(one.ffn_dim - one.embed_dim))


def _transformer(config: EncoderDecoderConfig, layers: int, ffn_dim: int) -> EncoderDecoderConfig:
    return EncoderDecoderConfig(
        family="transformer",
        src_vocab_size=config.src_vocab_size,
        tgt_vocab_size=config.tgt_vocab_size,
        tie_embeddings=config.tie_embeddings,
        embed_dim=config.embed_dim,
        num_heads=config.num_heads,
        ffn_dim=ffn_dim,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        max_positions=config.max_positions,
        pre_norm=True,
        final_norm=True,
    )


def _macs(config: EncoderDecoderConfig, src_len: int, steps: int, beam: int) -> int:
    return count_config(config, src_len=src_len, tgt_len=steps, beam=beam).macs_executed


def mean_macs(config: EncoderDecoderConfig, lengths: Iterable[tuple[int, int]], beam: int) -> int:
    """Executed Mult-Adds of a sentence, the mean over pairs of source tokens and decoder steps."""
    return round(statistics.mean(_macs(config, src_len, steps, beam) for src_len, steps in lengths))


def describe_rows(
    contenders: Mapping[str, Contender],
    turns: Mapping[str, Sequence[Turn]],
    lengths: Mapping[str, Sequence[tuple[int, int]]],
    *,
    beam: int,
) -> list[dict[str, Any]]:
    """The rows of the report.

    A time is the median over the rounds, and so is a ratio: each round compares what was measured one right after the
    other, and a change in the load of the machine that lasts longer than a round meets both sides of it.

    Args:
        contenders: By label, in the order of the rows.
        turns: Times of each round by label, as many of each.
        lengths: Source tokens and decoder steps of every sentence of a turn by label.
        beam: Hypotheses of a step.
    """
    reference = next(
        (
            label
            for label, one in contenders.items()
            if (one.engine, one.precision) == (CTRANSLATE2, "int8") and "instruction_set" not in one.facts
        ),
        None,
    )
    rows = []
    for label, one in contenders.items():
        sentences = len(lengths[label])
        row: dict[str, Any] = {"engine": one.engine, "model": one.model, "precision": one.precision, **one.facts}
        for place, prefix in enumerate(("", "cpu_")):
            times = [turn[place] for turn in turns[label]]
            row[f"{prefix}ms"] = round(1e3 * statistics.median(times) / sentences, 3)
            ratio = None
            if reference is not None:
                pairs = zip(times, (turn[place] for turn in turns[reference]), strict=True)
                ratio = round(statistics.median(own / other for own, other in pairs), 3)
            row[f"{prefix}ratio_to_ctranslate2_int8"] = ratio
        row["macs"] = mean_macs(one.config, lengths[label], beam)
        rows.append(row)
    return rows
