"""Compression of any ``nn.Module``: sensitivity, pruning, quantization, entropy coding and the ``.lnlp`` container.

Importing this package imports nothing heavy: every name below is imported when it is first used. ``compress_module``
and ``load_compressed`` are the way in for a module of one's own; ``run_pipeline`` is the same with all callbacks open.
"""

from typing import TYPE_CHECKING

from lite_nlp.core.lazy import lazy_names

if TYPE_CHECKING:
    from lite_nlp.compress.ledger import CompressionSubject, StageRow
    from lite_nlp.compress.lnlp.container import Container, read_container
    from lite_nlp.compress.metric import Metric
    from lite_nlp.compress.modules import compress_module, load_compressed
    from lite_nlp.compress.pipeline import CompressionOptions, run_pipeline
    from lite_nlp.compress.quantize.protocol import Choice, HeldWeights, QuantizedWeights, Quantizer, TrainableWeights
    from lite_nlp.compress.quantizers import register_quantizer
    from lite_nlp.compress.significance import Change, Measure, Scored, mean_measure
    from lite_nlp.compress.tuning import TuningOptions
    from lite_nlp.compress.weight_tuner import Finetuning

__all__ = [
    "Change",
    "Choice",
    "CompressionOptions",
    "CompressionSubject",
    "Container",
    "Finetuning",
    "HeldWeights",
    "Measure",
    "Metric",
    "QuantizedWeights",
    "Quantizer",
    "Scored",
    "StageRow",
    "TrainableWeights",
    "TuningOptions",
    "compress_module",
    "load_compressed",
    "mean_measure",
    "read_container",
    "register_quantizer",
    "run_pipeline",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Change": "lite_nlp.compress.significance",
        "Choice": "lite_nlp.compress.quantize.protocol",
        "HeldWeights": "lite_nlp.compress.quantize.protocol",
        "CompressionOptions": "lite_nlp.compress.pipeline",
        "CompressionSubject": "lite_nlp.compress.ledger",
        "Container": "lite_nlp.compress.lnlp.container",
        "Finetuning": "lite_nlp.compress.weight_tuner",
        "Measure": "lite_nlp.compress.significance",
        "Metric": "lite_nlp.compress.metric",
        "QuantizedWeights": "lite_nlp.compress.quantize.protocol",
        "Quantizer": "lite_nlp.compress.quantize.protocol",
        "Scored": "lite_nlp.compress.significance",
        "StageRow": "lite_nlp.compress.ledger",
        "TrainableWeights": "lite_nlp.compress.quantize.protocol",
        "TuningOptions": "lite_nlp.compress.tuning",
        "compress_module": "lite_nlp.compress.modules",
        "load_compressed": "lite_nlp.compress.modules",
        "mean_measure": "lite_nlp.compress.significance",
        "read_container": "lite_nlp.compress.lnlp.container",
        "register_quantizer": "lite_nlp.compress.quantizers",
        "run_pipeline": "lite_nlp.compress.pipeline",
    },
)
