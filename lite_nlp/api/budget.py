"""Parameters and Mult-Adds of a model, and their check against a budget. Imports no torch by itself."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

from lite_nlp.artifacts.targets import Countable, read_graph_columns, read_target
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.advice import advise
from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.limits import CountParams, Limits, check_limits
from lite_nlp.budget.reporting.modules import ModuleReport
from lite_nlp.budget.reporting.papers import conformance, parameter_convention
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import UsageError

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import TypeIs

__all__ = ["ModelBudget", "check_budget", "count_model"]


@dataclass(frozen=True, kw_only=True)
class ModelBudget:
    """The figures of one model; all are exact integers.

    Attributes:
        target: Name of the model.
        family: Its family; empty for a module that is none of this project's.
        lengths: Tokens counted, ``{"src", "tgt"}``; empty for a module.
        params: As ``budget --json`` prints them: ``total``, ``embeddings``, ``paper``, ``parts`` and more.
        macs: As ``budget --json`` prints them: ``paper``, ``executed``, ``parts``, ``graphs`` of a bundle, and more.
            A module that is none of this project's has no ``paper``, which its architecture would define.
    """

    target: str
    family: str
    lengths: Mapping[str, int]
    params: Mapping[str, Any]
    macs: Mapping[str, Any]


def count_model(
    target: "Countable | nn.Module" = None,
    *example_inputs: Any,
    src_len: int | None = None,
    tgt_len: int | None = None,
    beam: int = 1,
    overrides: Sequence[str] = (),
) -> ModelBudget:
    """Count the parameters and Mult-Adds of a model.

    A model of this project is counted in closed form from its config; nothing is loaded or run. Any other ``nn.Module``
    is counted operator by operator while it runs on tensors without values: ``macs`` then has ``executed`` (one call
    on the example inputs, LayerNorm as one Mult-Add per element), ``parts`` (by module) and ``kinds`` (of work);
    ``params`` has ``total``, ``embeddings`` (``nn.Embedding`` and ``nn.EmbeddingBag``), ``paper`` (the former without
    the latter) and ``parts``.

    Args:
        target: Name of a preset, config file, config, MODEL (path or shipped name), loaded model, or module; None is
            the default shipped model.
        *example_inputs: Arguments of the module's call, of which shapes and types count; for modules only. A model of
            this project that is given them is counted as any other module.
        src_len: Source tokens, end mark included; None is 30, or as many as the model takes.
        tgt_len: Target tokens, likewise.
        beam: Hypotheses of a search, 1 to 256, in ``executed``.
        overrides: ``section.key=value`` strings that change a preset, a config file or a config.

    Returns:
        The figures, exact integers: ``params``, ``macs`` (of one sentence of these lengths, or one call of a module),
        and the ``lengths`` counted.

    Raises:
        ConfigError: If ``target`` names nothing, or a config, an override or a length is wrong.
        UsageError: If arguments exclude each other, or a length or beam is given that the model has no use for.
        UnknownOperatorError: If a module runs an operator without a formula; see
            :func:`lite_nlp.budget.traced.register_operator`.
        CountError: If a module's control flow depends on the values in its tensors.
        LiteNlpError: If a MODEL is damaged.
    """
    gate = BudgetGate(src_len=src_len, tgt_len=tgt_len)
    settings = _Settings(gate=gate, beam=beam, overrides=overrides, advised=False, recount=False)
    report = _report(target, example_inputs, settings)
    return ModelBudget(
        target=report.target, family=report.family, lengths=report.lengths, params=report.params, macs=report.macs
    )


@overload
def check_budget(
    target: "nn.Module",
    example_input: Any,
    /,
    *example_inputs: Any,
    max_macs: int = ...,
    max_params: int = ...,
    count_params: CountParams = ...,
) -> ModuleReport: ...


@overload
def check_budget(
    target: "Countable | nn.Module" = ...,
    *,
    max_macs: int = ...,
    max_params: int = ...,
    count_params: CountParams = ...,
    max_size: int | None = ...,
    src_len: int | None = ...,
    tgt_len: int | None = ...,
    beam: int = ...,
    overrides: Sequence[str] = ...,
    recount: bool = ...,
) -> BudgetReport: ...


def check_budget(
    target: "Countable | nn.Module" = None,
    *example_inputs: Any,
    max_macs: int = 500_000_000,
    max_params: int = 10_000_000,
    count_params: CountParams = "paper",
    max_size: int | None = None,
    src_len: int | None = None,
    tgt_len: int | None = None,
    beam: int = 1,
    overrides: Sequence[str] = (),
    recount: bool = True,
) -> BudgetReport | ModuleReport:
    """Check a model against a budget, by default the mobile setting of Lite Transformer (section 5.1).

    Args:
        target: As in :func:`count_model`.
        *example_inputs: As in :func:`count_model`.
        max_macs: Most Mult-Adds, in the ``paper`` convention; for a module that is none of this project's, in one call.
        max_params: Most parameters.
        count_params: Which count ``max_params`` bounds: ``total``, or ``paper``, without embedding tables.
        max_size: Largest file in bytes, for a ``.lnlp`` file or a bundle; None sets no limit.
        src_len: Source tokens, end mark included; None is 30, or as many as the model takes.
        tgt_len: Target tokens, likewise.
        beam: Hypotheses of a search, in ``executed``; the limit applies to ``paper``, which has no beam.
        overrides: ``section.key=value`` strings that change a preset, a config file or a config.
        recount: Whether the graphs of a bundle are counted again, as far as the installed packages allow; otherwise
            their figures are those that its manifest records.

    Returns:
        The report: ``params`` and ``macs``, a verdict for each limit (``verdicts``, ``within_budget``), changes that
        meet the limits (``advice``, empty for a module), ``to_json()``, and ``require()``, which raises
        ``OverBudgetError`` if a limit is exceeded.

    Raises:
        UsageError: If arguments exclude each other, ``count_params`` is another word, or there is no file for
            ``max_size`` to bound.
        LiteNlpError: As :func:`count_model`.
    """
    limits = Limits(max_macs=max_macs, max_params=max_params, count_params=count_params, max_size_bytes=max_size)
    gate = BudgetGate(limits=limits, src_len=src_len, tgt_len=tgt_len)
    settings = _Settings(gate=gate, beam=beam, overrides=overrides, advised=True, recount=recount)
    return _report(target, example_inputs, settings)


@dataclass(frozen=True, kw_only=True)
class _Settings:
    """Settings of a count: limits and lengths, beam, overrides, whether to seek advice and to recount graphs."""

    gate: BudgetGate
    beam: int
    overrides: Sequence[str]
    advised: bool
    recount: bool


def _report(
    target: "Countable | nn.Module", example_inputs: tuple[Any, ...], settings: _Settings
) -> BudgetReport | ModuleReport:
    if not _is_module(target):
        if example_inputs:
            raise UsageError(f"example inputs: expected a module to call with them, found {target!r}")
        return _report_config(target, settings)
    name = type(target).__name__
    if settings.overrides:
        raise UsageError(f"--set changes a preset or config file, found a module {name}")
    if not example_inputs:
        config = getattr(target, "config", None)
        if not isinstance(config, ModelConfig):
            raise UsageError(f"{name}: expected example inputs to call the module with, found none")
        return _report_config(config, settings)
    gate = settings.gate
    if gate.src_len is not None or gate.tgt_len is not None or settings.beam != 1 or gate.limits.max_size_bytes:
        raise UsageError(f"{name}: expected neither lengths, beam nor a file size beside example inputs, found one")
    return _report_module(target, example_inputs, gate.limits)


def _is_module(target: object) -> "TypeIs[nn.Module]":
    """Whether ``target`` is a module; never true before torch is imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(target, torch.nn.Module)


def _report_module(module: "nn.Module", example_inputs: tuple[Any, ...], limits: Limits) -> ModuleReport:
    from lite_nlp.budget.traced import count_parameters, count_work

    return ModuleReport(
        target=type(module).__name__,
        work=count_work(module, *example_inputs),
        parameters=count_parameters(module),
        limits=limits,
    )


def _report_config(named: Countable, settings: _Settings) -> BudgetReport:
    target, gate, limits = read_target(named, settings.overrides), settings.gate, settings.gate.limits
    size_bytes = target.size_bytes
    if limits.max_size_bytes is not None and size_bytes is None:
        raise UsageError(f"--max-size: expected a .lnlp file or a bundle to weigh, found {target.name}")
    src_len, tgt_len = gate.lengths(target.model)
    count = count_config(target.model, src_len=src_len, tgt_len=tgt_len, beam=settings.beam)
    verdicts = check_limits(count, limits, size_bytes=size_bytes)
    return BudgetReport(
        target=target.name,
        model=target.model,
        count=count,
        limits=limits,
        verdicts=verdicts,
        advice=advise(
            target.model,
            limits,
            verdicts,
            src_len=src_len,
            tgt_len=tgt_len,
            target=target.words,
            bundle=target.bundle is not None,
        )
        if settings.advised
        else (),
        size_bytes=size_bytes,
        paper_counts="paper" if target.config is None else parameter_convention(target.config),
        published=[cell for cell in conformance() if cell.model == target.preset] if target.preset else (),
        graphs=read_graph_columns(target, recount=settings.recount),
    )
