"""What would reach a target that compression alone cannot: a smaller model, and which dimensions. Imports no torch."""

from lite_nlp.budget.gate.enforcement import BudgetGate
from lite_nlp.budget.gate.smaller import COMFORTABLE_BITS, CompressedSize, describe_smaller, find_smaller
from lite_nlp.compress.lnlp.composition import MATRIX_KINDS
from lite_nlp.config.model import ModelConfig
from lite_nlp.core.errors import TargetSizeError

__all__ = ["with_smaller_models"]


def with_smaller_models(error: TargetSizeError, model: ModelConfig) -> TargetSizeError:
    """The error with smaller models that would fit: as coarse as the smallest file, and at a comfortable rate.

    Args:
        error: A target out of reach.
        model: The architecture that was to be compressed.
    """
    by_kind = error.bytes_by_kind
    if not by_kind:
        return error
    matrices = sum(by_kind[kind] for kind in MATRIX_KINDS)
    vectors, vocabulary = by_kind["biases"], by_kind["vocabulary"]
    fixed = sum(by_kind.values()) - matrices - vectors - vocabulary
    rates = [(COMFORTABLE_BITS, f"{COMFORTABLE_BITS:g} bits for each weight, a comfortable rate")]
    if error.num_weights:
        coarsest = 8 * matrices / error.num_weights
        rates.insert(0, (coarsest, f"{coarsest:.2f} bits for each weight, as coarse as here"))
    src_len, tgt_len = BudgetGate().lengths(model)
    found = [
        (
            described,
            find_smaller(
                model,
                CompressedSize(
                    bits_per_weight=bits, vector_bytes=vectors, vocabulary_bytes=vocabulary, fixed_bytes=fixed
                ),
                target_bytes=error.target_bytes,
                src_len=src_len,
                tgt_len=tgt_len,
            ),
        )
        for bits, described in rates
    ]
    return TargetSizeError(
        f"{error}\n{describe_smaller(found)}",
        smallest_bytes=error.smallest_bytes,
        target_bytes=error.target_bytes,
        bytes_by_kind=by_kind,
        num_weights=error.num_weights,
    )
