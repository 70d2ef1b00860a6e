"""Time of a search on a processor at best, in closed form: the roofline of Williams et al. (2009).

A run of the encoder, and each decoder step, takes at least as long as its Mult-Adds at the processor's peak, and at
least as long as reading its weights from memory once; the longer of the two bounds it. What a roofline leaves out is
all else: the cost of calling operators, activations and caches, softmax, the search. No program reaches it. Imports no
torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from lite_nlp.budget.closed_form.counts import Operation
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import UsageError
from lite_nlp.core.suggestions import expected_one_of

__all__ = [
    "PROCESSORS",
    "WEIGHT_BYTES",
    "Bound",
    "Estimate",
    "Processor",
    "SearchWork",
    "find_processor",
    "least_ms",
    "search_estimates",
    "search_work",
]

#: What limits a part of the work.
Bound = Literal["arithmetic", "memory"]

#: Bytes of a weight by precision.
WEIGHT_BYTES: Final[Mapping[str, int]] = MappingProxyType({"fp32": 4, "int8": 1})

#: Operations that multiply every token by weights, each weight once: so many Mult-Adds, so many weights.
_MATRICES: Final[tuple[Operation, ...]] = ("linear", "kernel_generator", "feature_map", "output")


@dataclass(frozen=True, kw_only=True)
class Processor:
    """A processor's limits.

    Attributes:
        title: Its name with the board that the bandwidth is of.
        cores: Number of its cores.
        core_flops: Peak of one core in fp32 operations per second; a Mult-Add is two. Without instructions for dot
            products of 8-bit integers, int8 has no higher peak worth counting on: products of eight pairs have 16
            bits and are added up by further instructions.
        bytes_per_s: Memory bandwidth measured by STREAM, whatever the number of cores.
    """

    title: str
    cores: int
    core_flops: float
    bytes_per_s: float


#: By the name on the command line. Cortex-A72: 1.5 GHz, one vector instruction of four fused Mult-Adds per cycle; four
#: cores are the 48 GFLOPS of Lite Transformer (section 5.1). Bandwidth: STREAM on a Raspberry Pi 4 (docs/bench.md).
PROCESSORS: Final[Mapping[str, Processor]] = MappingProxyType(
    {
        "cortex-a72": Processor(
            title="Cortex-A72, 4 cores at 1.5 GHz (Raspberry Pi 4)", cores=4, core_flops=12e9, bytes_per_s=4.8e9
        )
    }
)


def find_processor(name: str) -> Processor:
    """The processor of that name.

    Raises:
        UsageError: If there is none.
    """
    if name not in PROCESSORS:
        raise UsageError(f"--estimate: {expected_one_of(PROCESSORS, name)}")
    return PROCESSORS[name]


@dataclass(frozen=True, kw_only=True)
class SearchWork:
    """What one output of a search takes.

    Attributes:
        steps: Decoder steps, the end mark included.
        encode_macs: Mult-Adds before the first step; 0 for a language model.
        step_macs: Mult-Adds of a step, all hypotheses, the mean over the steps.
        encode_weights: Weights that are read before the first step, shared ones once.
        step_weights: Weights that each step reads, once for all hypotheses and for all layers that share them.
    """

    steps: int
    encode_macs: int
    step_macs: float
    encode_weights: int
    step_weights: int


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The least time of one part of a search: the encoder's run or a decoder step.

    Attributes:
        arithmetic_ms: Of its Mult-Adds at the processor's peak.
        memory_ms: Of reading its weights from memory.
    """

    arithmetic_ms: float
    memory_ms: float

    @property
    def ms(self) -> float:
        """The longer of the two."""
        return max(self.arithmetic_ms, self.memory_ms)

    @property
    def bound(self) -> Bound:
        """Which one that is."""
        return "arithmetic" if self.arithmetic_ms > self.memory_ms else "memory"

    @classmethod
    def of(cls, macs: float, weights: int, processor: Processor, *, threads: int, precision: str) -> "Estimate":
        """The least time of ``macs`` Mult-Adds with so many weights of ``precision``, on ``threads`` cores."""
        return cls(
            arithmetic_ms=1e3 * 2 * macs / (threads * processor.core_flops),
            memory_ms=1e3 * weights * WEIGHT_BYTES[precision] / processor.bytes_per_s,
        )


def search_estimates(
    work: SearchWork, processor: Processor, *, threads: int, precision: str
) -> tuple[Estimate, Estimate]:
    """The least times of what precedes the steps of a search, and of a step."""
    before, step = (
        Estimate.of(macs, weights, processor, threads=threads, precision=precision)
        for macs, weights in ((work.encode_macs, work.encode_weights), (work.step_macs, work.step_weights))
    )
    return before, step


def least_ms(model: ModelConfig, processor: Processor, *, src_len: int, tgt_len: int) -> float:
    """The least time of an output on one core, weights in fp32; of a model without a decoder, of its one run.

    Args:
        model: Any model.
        processor: Whose limits bound it.
        src_len: Source tokens, end mark included.
        tgt_len: Decoder steps, or tokens of a second sentence.

    Raises:
        ConfigError: If a length is out of range.
    """
    if not model.has_decoder:
        # Every weight but the last ones' is for many tokens: arithmetic bounds it.
        macs = count_config(model, src_len=src_len, tgt_len=tgt_len).macs_executed
        return Estimate.of(macs, 0, processor, threads=1, precision="fp32").ms
    work = search_work(model, src_len=src_len, tgt_len=tgt_len)
    before, step = search_estimates(work, processor, threads=1, precision="fp32")
    return before.ms + work.steps * step.ms


def search_work(model: ModelConfig, *, src_len: int, tgt_len: int, beam: int = 1) -> SearchWork:
    """Count what a search does before its steps and in each of them.

    Args:
        model: A model with a decoder.
        src_len: Source tokens, end mark included; a language model has none.
        tgt_len: Decoder steps; at most the model's positions.
        beam: Hypotheses of a step.

    Raises:
        UsageError: If the model has no decoder.
        ConfigError: If a length or the beam is out of range.
    """
    if not model.has_decoder:
        raise UsageError(f"--estimate: expected a model with a decoder, found a {model.architecture}")

    def count(steps: int) -> tuple[int, int]:
        """Mult-Adds of all operations, and of those by weights, each weight once however many layers share it."""
        # Also of a model that takes fewer.
        longer = model.model_copy(update={"max_positions": max(model.max_positions, steps)})
        costs = count_config(longer, src_len=src_len, tgt_len=steps).costs
        weighted = sum(cost.executed - cost.repeated for cost in costs if cost.operation in _MATRICES)
        return sum(cost.executed for cost in costs), weighted

    # With n steps they are c0 + c1 n + c2 n (n + 1) / 2: what precedes the steps, what every step does alike, and
    # attention over the tokens so far. Those by weights have no c2; their c1 has each weight of the decoder once, and
    # their c0 each of the encoder, and of cross-attention's keys and values, once for every source token.
    (one, one_weighted), (two, two_weighted), (three, _) = (count(steps) for steps in (1, 2, 3))
    attention = three - 2 * two + one
    encode_macs = one - (two - one - 2 * attention) - attention
    step_weights = two_weighted - one_weighted
    whole = count_config(model, src_len=src_len, tgt_len=tgt_len, beam=beam).macs_executed
    return SearchWork(
        steps=tgt_len,
        encode_macs=encode_macs,
        step_macs=(whole - encode_macs) / tgt_len,
        encode_weights=(one_weighted - step_weights) // src_len,
        step_weights=step_weights,
    )
