"""Small sequence models for the phone: train, count, compress, export and run models of text offline.

Importing this package imports nothing heavy: every name below is imported when it is first used. ``docs/python.md``
shows examples.
"""

from typing import TYPE_CHECKING

from lite_nlp.core.lazy import lazy_names
from lite_nlp.core.version import __version__

if TYPE_CHECKING:
    from lite_nlp.api.bench import bench_model
    from lite_nlp.api.budget import check_budget, count_model
    from lite_nlp.api.compress import compress_model
    from lite_nlp.api.convert import convert_to_t2r
    from lite_nlp.api.data import prepare_data, write_sample
    from lite_nlp.api.distill import distill_model
    from lite_nlp.api.evaluate import evaluate_model
    from lite_nlp.api.export import export_model
    from lite_nlp.api.report import report_model
    from lite_nlp.api.train import train_model
    from lite_nlp.artifacts.classifiers import open_classifier
    from lite_nlp.artifacts.generators import open_generator
    from lite_nlp.artifacts.models import load_model
    from lite_nlp.artifacts.translators import open_translator

__all__ = [
    "__version__",
    "bench_model",
    "check_budget",
    "compress_model",
    "convert_to_t2r",
    "count_model",
    "distill_model",
    "evaluate_model",
    "export_model",
    "load_model",
    "open_classifier",
    "open_generator",
    "open_translator",
    "prepare_data",
    "report_model",
    "train_model",
    "write_sample",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "bench_model": "lite_nlp.api.bench",
        "check_budget": "lite_nlp.api.budget",
        "compress_model": "lite_nlp.api.compress",
        "convert_to_t2r": "lite_nlp.api.convert",
        "count_model": "lite_nlp.api.budget",
        "distill_model": "lite_nlp.api.distill",
        "evaluate_model": "lite_nlp.api.evaluate",
        "export_model": "lite_nlp.api.export",
        "load_model": "lite_nlp.artifacts.models",
        "open_classifier": "lite_nlp.artifacts.classifiers",
        "open_generator": "lite_nlp.artifacts.generators",
        "open_translator": "lite_nlp.artifacts.translators",
        "prepare_data": "lite_nlp.api.data",
        "report_model": "lite_nlp.api.report",
        "train_model": "lite_nlp.api.train",
        "write_sample": "lite_nlp.api.data",
    },
)
