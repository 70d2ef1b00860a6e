"""Small language models of every family, with random weights."""

from typing import Any

from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.models.build import as_language_model
from lite_nlp.models.language_model import LanguageModel
from tests.unit.models.conftest import VARIANTS, randomized

TYPES = 37
ADAPTIVE: dict[str, Any] = {"embedding": "adaptive", "adaptive_cutoffs": (9, 20), "adaptive_factor": 2}
_SOURCE_KEYS = ("src_vocab_size", "num_encoder_layers", "kernel_sizes", "cross_attention", "cross_feature_size")


def _decoder_alone(variant: dict[str, Any]) -> dict[str, Any]:
    """The same family and options without encoder and cross-attention."""
    kept = {key: value for key, value in variant.items() if key not in _SOURCE_KEYS}
    if kept.get("tie_embeddings") == "decoder":
        kept["tie_embeddings"] = "all"
    return kept


LM_VARIANTS = {
    # The one whose linear attention is in cross-attention alone is no t2r without it.
    **{name: _decoder_alone(variant) for name, variant in VARIANTS.items() if name != "t2r-cross-only"},
    "adaptive": {"family": "transformer", **ADAPTIVE},
    "adaptive-lsra": {**_decoder_alone(VARIANTS["lsra-dynamic-glu"]), **ADAPTIVE, "pre_norm": True},
    "adaptive-subformer": {**_decoder_alone(VARIANTS["sandwich-wide"]), **ADAPTIVE},
    "adaptive-t2r": {**_decoder_alone(VARIANTS["t2r"]), **ADAPTIVE, "adaptive_cutoffs": (30,)},
}


def language_model_config(**changes: Any) -> ModelConfig:
    values = {
        "architecture": "language-model",
        "embed_dim": 16,
        "ffn_dim": 24,
        "num_heads": 2,
        "conv_num_heads": 2,
        "num_decoder_layers": 2,
        "tgt_vocab_size": TYPES,
        "dropout": 0.0,
    }
    return parse_model({**values, **changes})


def language_model(**changes: Any) -> LanguageModel:
    return as_language_model(randomized(language_model_config(**changes)), source="test")
