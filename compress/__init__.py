"""Compression of any ``nn.Module``: sensitivity, pruning, quantization, entropy coding and the ``.lnlp`` container.

Importing this package imports nothing heavy: every name below is imported when it is first used. ``compress_module``
and ``load_compressed`` are the way in for a module of one's own; ``run_pipeline`` is the same with all callbacks open.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from lite_nlp.compress.finetune import FinetuneOptions
    from lite_nlp.compress.ledger import CompressionSubject, StageRow
    from lite_nlp.compress.lnlp.container import Container, read_container
    from lite_nlp.compress.metric import Metric
    from lite_nlp.compress.modules import compress_module, load_compressed
    from lite_nlp.compress.pipeline import CompressionOptions, Finetuning, run_pipeline
    from lite_nlp.compress.quantize.protocol import QuantizedWeights, Quantizer, TrainableWeights
    from lite_nlp.compress.quantize.registry import register_quantizer

__all__ = [
    "CompressionOptions",
    "CompressionSubject",
    "Container",
    "FinetuneOptions",
    "Finetuning",
    "Metric",
    "QuantizedWeights",
    "Quantizer",
    "StageRow",
    "TrainableWeights",
    "compress_module",
    "load_compressed",
    "read_container",
    "register_quantizer",
    "run_pipeline",
]

#: Where each name is defined.
_HOMES: Final = {
    "CompressionOptions": "pipeline",
    "CompressionSubject": "ledger",
    "Container": "lnlp.container",
    "FinetuneOptions": "finetune",
    "Finetuning": "pipeline",
    "Metric": "metric",
    "QuantizedWeights": "quantize.protocol",
    "Quantizer": "quantize.protocol",
    "StageRow": "ledger",
    "TrainableWeights": "quantize.protocol",
    "compress_module": "modules",
    "load_compressed": "modules",
    "read_container": "lnlp.container",
    "register_quantizer": "quantize.registry",
    "run_pipeline": "pipeline",
}


def __getattr__(name: str) -> Any:
    """Import ``name`` from the module that defines it, once.

    Raises:
        AttributeError: If the package has no such name.
    """
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The names offered."""
    return sorted(__all__)
