"""Smaller models within a target: the sizes are sums that can be done by hand."""

from typing import Any

import pytest

from lite_nlp.api.smaller_models import with_smaller_models
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.gate.smaller import CompressedSize, describe_smaller, find_smaller
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import TargetSizeError

KINDS = dict.fromkeys(("weights", "codebooks", "symbols", "tables", "states", "biases", "vocabulary", "files"), 0)


def _model(**changes: Any) -> ModelConfig:
    sizes = {"src_vocab_size": 400, "tgt_vocab_size": 400, "embed_dim": 16, "ffn_dim": 16, "num_heads": 2}
    sizes |= {"cross_num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2}
    return parse_model({"family": "transformer", **sizes, **changes})


# Of a model of 2 + 2 layers and width d: 32 d^2 weights in the layers, 400 d in the table, 52 d in vectors.
MATRICES, VECTORS = 32 * 256 + 400 * 16, 52 * 16
SIZE = CompressedSize(bits_per_weight=4.0, vector_bytes=VECTORS, vocabulary_bytes=800, fixed_bytes=100)


def test_the_size_of_the_same_model_is_its_own() -> None:
    model = _model()
    count = count_config(model, src_len=1, tgt_len=1)
    assert count.params_total == MATRICES + VECTORS
    assert SIZE.predict(model, count, original=model, before=count) == MATRICES // 2 + VECTORS + 800 + 100


def test_dimensions_alone_and_in_pairs() -> None:
    # At d = 10: (3200 + 4000) / 2 + 520 + 800 + 100 = 5020; two heads divide no 11.
    found = find_smaller(_model(), SIZE, target_bytes=5020, src_len=1, tgt_len=1)
    single, layers = found
    assert single.overrides == ("model.embed_dim=10", "model.ffn_dim=10")
    assert single.size_bytes == 5020
    # At one layer of each and d = 12: (16 x 144 + 4800) / 2 + 312 + 900 = 4764. A pair with fewer types is not told:
    # d = 12 with the 262 that there are at least has (4608 + 3144) / 2 + 624 + 524 + 100 = 5124.
    assert layers.overrides[:3] == (
        "model.embed_dim=12",
        "model.num_encoder_layers=1",
        "model.num_decoder_layers=1",
    )
    assert (layers.dimensions, layers.size_bytes) == (2, 4764)


def test_a_pair_keeps_a_balanced_part_of_both() -> None:
    # Types cost most here: 4000 d / 2 and 6000 bytes for 4000 of them, 16 d^2 for the layers.
    model = _model(src_vocab_size=4000, tgt_vocab_size=4000)
    size = CompressedSize(bits_per_weight=4.0, vector_bytes=0, vocabulary_bytes=6000, fixed_bytes=0)
    found = find_smaller(model, size, target_bytes=15_000, src_len=1, tgt_len=1)
    # With so many types and d = 16: 4096 + 9.5 for each.
    assert (found[0].overrides[0], found[0].size_bytes) == ("model.src_vocab_size=1147", 14_993)
    pair = found[-1]
    width, types = (int(pair.overrides[place].rpartition("=")[2]) for place in (0, 1))
    assert pair.dimensions == 2
    assert abs(width / 16 - types / 4000) < 0.15
    assert 16 * width**2 + types * width / 2 + 1.5 * types <= 15_000


def test_nothing_fits_where_the_rest_alone_is_larger() -> None:
    assert find_smaller(_model(), SIZE, target_bytes=600, src_len=1, tgt_len=1) == ()
    assert describe_smaller([("3 bits", ())]) == (
        "at 3 bits, no smaller dimension that was tried would fit, nor two of them together"
    )


@pytest.mark.parametrize(
    "content",
    [
        {"architecture": "language-model", "family": "transformer", "tgt_vocab_size": 400},
        {"architecture": "sequence-classifier", "family": "transformer", "src_vocab_size": 400, "num_classes": 2},
        {"architecture": "encoder-decoder", "family": "lite-transformer", "kernel_sizes": [3, 7]},
    ],
)
def test_every_architecture_has_an_answer(content: dict[str, Any]) -> None:
    sizes: dict[str, Any] = {"embed_dim": 32, "ffn_dim": 32, "num_heads": 2}
    if content["architecture"] != "language-model":
        sizes["num_encoder_layers"] = 2
    if content["architecture"] != "sequence-classifier":
        sizes["num_decoder_layers"] = 2
    if content["architecture"] == "encoder-decoder":
        sizes |= {"cross_num_heads": 2, "decoder_kernel_sizes": [3, 7], "src_vocab_size": 400, "tgt_vocab_size": 400}
    model = parse_model(content | sizes)
    by_kind = KINDS | {"symbols": 4000, "biases": 300, "vocabulary": 400, "header": 200}
    error = TargetSizeError(
        "m: too large", smallest_bytes=4900, target_bytes=3000, bytes_by_kind=by_kind, num_weights=16_000
    )
    advised = with_smaller_models(error, model)
    lines = str(advised).splitlines()
    assert lines[0] == "m: too large"
    assert "at 2.00 bits for each weight, as coarse as here, a model with" in lines[1]
    assert any(line.startswith("at 3 bits for each weight, a comfortable rate") for line in lines)
    assert any("embed_dim 32 -> " in line and "parameters, about" in line for line in lines)
    assert (advised.smallest_bytes, advised.target_bytes) == (4900, 3000)


def test_without_figures_there_is_no_advice() -> None:
    error = TargetSizeError("m: too large", smallest_bytes=2, target_bytes=1)
    assert with_smaller_models(error, _model()) is error
