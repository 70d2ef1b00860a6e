"""Estimate of a MODEL's speed on a processor that is not at hand, behind ``lite-nlp bench --estimate``."""

from dataclasses import dataclass
from typing import Any, Final

from lite_nlp.artifacts.targets import Countable, read_target
from lite_nlp.budget.closed_form.roofline import (
    WEIGHT_BYTES,
    Estimate,
    Processor,
    SearchWork,
    find_processor,
    search_estimates,
    search_work,
)
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.core.bounds import MAX_BEAM, check_range
from lite_nlp.core.version import __version__

__all__ = ["SpeedEstimate", "SpeedRow", "estimate_speed"]

_DIGITS: Final = 3


@dataclass(frozen=True, kw_only=True)
class SpeedRow:
    """The estimate for weights of one precision and one number of threads.

    Attributes:
        precision: Of the weights.
        threads: Cores at work.
        encode: What precedes the first step.
        step: One decoder step.
        steps: Steps of an output.
    """

    precision: str
    threads: int
    encode: Estimate
    step: Estimate
    steps: int

    @property
    def sentence_ms(self) -> float:
        """The least time of an output."""
        return self.encode.ms + self.steps * self.step.ms

    @property
    def tokens_per_s(self) -> float:
        """Steps per second, what precedes them included."""
        return 1e3 * self.steps / self.sentence_ms

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON takes it."""
        parts = {
            name: {
                "ms": round(part.ms, _DIGITS),
                "arithmetic_ms": round(part.arithmetic_ms, _DIGITS),
                "memory_ms": round(part.memory_ms, _DIGITS),
                "bound": part.bound,
            }
            for name, part in (("encode", self.encode), ("token", self.step))
        }
        return {
            "precision": self.precision,
            "threads": self.threads,
            **parts,
            "sentence_ms": round(self.sentence_ms, _DIGITS),
            "tokens_per_s": round(self.tokens_per_s, _DIGITS),
        }


@dataclass(frozen=True, kw_only=True)
class SpeedEstimate:
    """What a model would take at least on a processor; nothing was run.

    Attributes:
        model: Name of the model.
        processor: Its limits.
        lengths: Tokens counted, ``{"src", "tgt"}``; no source of a language model.
        beam: Hypotheses of a step.
        work: Mult-Adds and weights.
        rows: For each precision, one core and all.
    """

    model: str
    processor: Processor
    lengths: dict[str, int]
    beam: int
    work: SearchWork
    rows: tuple[SpeedRow, ...]

    def as_dict(self) -> dict[str, Any]:
        """The estimate as JSON takes it."""
        work = self.work
        return {
            "tool": "lite-nlp bench --estimate",
            "tool_version": __version__,
            "estimate": True,
            "processor": {
                "name": self.processor.title,
                "cores": self.processor.cores,
                "peak_gflops": self.processor.cores * self.processor.core_flops / 1e9,
                "bandwidth_gb_per_s": self.processor.bytes_per_s / 1e9,
            },
            "model": self.model,
            "lengths": self.lengths,
            "beam": self.beam,
            "macs": {"encode": work.encode_macs, "token": round(work.step_macs)},
            "weights_read": {"encode": work.encode_weights, "token": work.step_weights},
            "rows": [row.as_dict() for row in self.rows],
        }


def estimate_speed(model: Countable = None, *, processor: str, beam: int = 1) -> SpeedEstimate:
    """Estimate the least time of an output from the counter alone; nothing is loaded or run.

    Args:
        model: What ``count_model`` takes by its config: a preset, a config file or a MODEL.
        processor: Name of one of ``lite_nlp.budget.closed_form.roofline.PROCESSORS``.
        beam: Hypotheses kept per sentence, 1 to 256.

    Raises:
        ConfigError: If the model names nothing.
        UsageError: If the processor is unknown, the model has no decoder, or the beam is out of range.
        LiteNlpError: If the model is damaged.
    """
    check_range("--beam", beam, 1, MAX_BEAM)
    limits = find_processor(processor)
    target = read_target(model)
    src_len, tgt_len = BudgetGate().lengths(target.model)
    work = search_work(target.model, src_len=src_len, tgt_len=tgt_len, beam=beam)
    rows = tuple(
        SpeedRow(
            precision=precision,
            threads=threads,
            encode=encode,
            step=step,
            steps=tgt_len,
        )
        for precision in WEIGHT_BYTES
        for threads in (1, limits.cores)
        for encode, step in (search_estimates(work, limits, threads=threads, precision=precision),)
    )
    return SpeedEstimate(
        model=target.name,
        processor=limits,
        lengths={"src": src_len if target.model.has_source else 0, "tgt": tgt_len},
        beam=beam,
        work=work,
        rows=rows,
    )
