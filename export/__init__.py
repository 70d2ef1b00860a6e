"""Export of encoder-decoders to ONNX and ExecuTorch, and the bundle that carries both.

Knows no model of this project: ``export_bundle`` takes any module that decodes step by step (``SteppedModel``).
``lite_nlp.export.runtime`` runs bundles without torch. Every name is imported when it is first used.
"""

from typing import TYPE_CHECKING

from lite_nlp.core.lazy import lazy_names

if TYPE_CHECKING:
    from lite_nlp.decoding.torch_model import SteppedModel
    from lite_nlp.export.pipeline import ModelCard, Proof, export_bundle
    from lite_nlp.export.runtime.bundle import Bundle, open_bundle
    from lite_nlp.export.runtime.engine import create_engine
    from lite_nlp.export.runtime.layout import Bounds

__all__ = ["Bounds", "Bundle", "ModelCard", "Proof", "SteppedModel", "create_engine", "export_bundle", "open_bundle"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Bounds": "lite_nlp.export.runtime.layout",
        "Bundle": "lite_nlp.export.runtime.bundle",
        "ModelCard": "lite_nlp.export.pipeline",
        "Proof": "lite_nlp.export.pipeline",
        "SteppedModel": "lite_nlp.decoding.torch_model",
        "create_engine": "lite_nlp.export.runtime.engine",
        "export_bundle": "lite_nlp.export.pipeline",
        "open_bundle": "lite_nlp.export.runtime.bundle",
    },
)
