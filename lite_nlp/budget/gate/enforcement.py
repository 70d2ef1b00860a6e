"""The mobile budget as a gate before and after work: ``train``, ``compress`` and ``export``. Imports no torch.

A model over budget raises :class:`~lite_nlp.core.errors.OverBudgetError`, whose message says which limit is exceeded,
which parts cost most and what would bring the model under it.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from lite_nlp.budget.closed_form.formulas import ModelCount, count_config, whole_number
from lite_nlp.budget.gate.advice import advise, describe_excess
from lite_nlp.budget.gate.limits import Limits, Verdict, check_limits
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import OverBudgetError, UsageError

__all__ = ["USUAL_LENGTH", "BudgetGate"]

#: Tokens of the mobile setting's sentence (Lite Transformer, section 5.1).
USUAL_LENGTH: Final = 30


@dataclass(frozen=True, kw_only=True)
class BudgetGate:
    """Limits, the lengths that they hold at, and the reaction to a model that exceeds them.

    Attributes:
        limits: The largest cost allowed.
        src_len: Source tokens to count; None for 30, or as many as the model takes. A language model has none.
        tgt_len: Target tokens to count, likewise. A classifier of single texts has none.
        allow: Whether to warn instead of raising.
        warn: Receives the warning; it is logged by default.
    """

    limits: Limits = field(default_factory=Limits)
    src_len: int | None = None
    tgt_len: int | None = None
    allow: bool = False
    warn: Callable[[str], None] = field(default=logging.getLogger("lite_nlp").warning, repr=False, compare=False)

    def lengths(self, model: ModelConfig) -> tuple[int, int]:
        """The numbers of source and target tokens that ``model`` is counted at.

        Raises:
            UsageError: If a length is set for a side that the model does not have.
            ConfigError: If a length is no whole number.
        """
        # Of a side that is not there any length would be passed over.
        if self.src_len is not None and not model.has_source:
            raise UsageError(f"--src-len: expected --tgt-len alone with a {model.architecture}, found {self.src_len}")
        if self.tgt_len is not None and not model.has_target:
            raise UsageError(f"--tgt-len: expected --src-len alone with a {model.architecture}, found {self.tgt_len}")
        usual = min(USUAL_LENGTH, model.max_positions)
        src_len, tgt_len = (usual if length is None else length for length in (self.src_len, self.tgt_len))
        return whole_number("source length", src_len), whole_number("target length", tgt_len)

    def check_model(self, model: ModelConfig, *, target: str, vocabulary_of_data: bool = False) -> None:
        """Check a model's Mult-Adds and parameters.

        Args:
            model: The architecture.
            target: How messages name the model.
            vocabulary_of_data: Whether the vocabulary is that of a data directory, as before a training.

        Raises:
            OverBudgetError: If one of them exceeds its limit and the gate does not allow that.
            ConfigError: If a length is below 1 or beyond the model's positions.
            UsageError: If a length is set for a side that the model does not have.
        """
        count = self._count(model)
        verdicts = check_limits(count, self.limits)
        self._enforce(model, count, verdicts, target=target, vocabulary_of_data=vocabulary_of_data)

    def check_size(self, model: ModelConfig, *, target: str, size_bytes: int, bundle: bool = False) -> None:
        """Check the size of the file that a model was written to, and nothing else.

        Args:
            model: The architecture in the file.
            target: How messages name the model.
            size_bytes: Size of the file; without a limit on the size nothing is checked.
            bundle: Whether the file is an exported bundle, which ``compress`` does not write.

        Raises:
            OverBudgetError: If the file is too large and the gate does not allow that.
        """
        count = self._count(model)
        verdicts = check_limits(count, self.limits, size_bytes=size_bytes)
        sizes = [verdict for verdict in verdicts if verdict.quantity == "size_bytes"]
        self._enforce(model, count, sizes, target=target, bundle=bundle)

    def _count(self, model: ModelConfig) -> ModelCount:
        src_len, tgt_len = self.lengths(model)
        return count_config(model, src_len=src_len, tgt_len=tgt_len)

    def _enforce(
        self,
        model: ModelConfig,
        count: ModelCount,
        verdicts: Sequence[Verdict],
        *,
        target: str,
        bundle: bool = False,
        vocabulary_of_data: bool = False,
    ) -> None:
        if all(verdict.within for verdict in verdicts):
            return
        src_len, tgt_len = self.lengths(model)
        advice = advise(model, self.limits, verdicts, src_len=src_len, tgt_len=tgt_len, target=target, bundle=bundle)
        text = describe_excess(target, count.lengths, verdicts, advice, vocabulary_of_data=vocabulary_of_data)
        if not self.allow:
            raise OverBudgetError(f"{text}\n--allow-over-budget goes on nevertheless")
        self.warn(f"{text}\ngoing on: --allow-over-budget")
