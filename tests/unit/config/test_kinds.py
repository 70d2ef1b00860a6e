"""Kinds of attention and of projections: a row of a table makes a kind known to every check."""

import pytest

from lite_nlp.config.kinds import ATTENTION_KINDS, LINEAR_KINDS, AttentionFacts, LinearFacts
from lite_nlp.config.layers import decoder_specs, encoder_specs
from lite_nlp.core.errors import ConfigError
from tests.unit.models.conftest import small_config


def test_a_kind_of_attention_is_added_by_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ConfigError, match=r"self_attention: expected 'softmax', .* or 'random-features', found 'cosine'"
    ):
        small_config(family="transformer", self_attention="cosine", self_feature_size=6)
    facts = AttentionFacts(is_linear=True, has_feature_size=True, feature_multiple=3)
    monkeypatch.setitem(ATTENTION_KINDS, "cosine", facts)
    config = small_config(family="transformer", self_attention="cosine", self_feature_size=6)
    assert {(spec.self_attention, spec.self_feature_size) for spec in decoder_specs(config)} == {("cosine", 6)}
    with pytest.raises(ConfigError, match=r"self_feature_size: expected at least 1 with self_attention = 'cosine'"):
        small_config(family="transformer", self_attention="cosine")
    with pytest.raises(ConfigError, match=r"self_feature_size: expected a multiple of 3 .* 'cosine', found 4"):
        small_config(family="transformer", self_attention="cosine", self_feature_size=4)


def test_random_features_come_in_pairs_of_sine_and_cosine() -> None:
    with pytest.raises(ConfigError, match=r"cross_feature_size: expected an even number .* 'random-features', found 5"):
        small_config(family="transformer", cross_attention="random-features", cross_feature_size=5)


def test_a_kind_of_projection_is_added_by_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"ffn_linear: expected 'dense', .* or 'low-rank', found 'octonion'"):
        small_config(family="transformer", ffn_linear="octonion")
    monkeypatch.setitem(LINEAR_KINDS, "octonion", LinearFacts(has_rank=True, width_multiple=8))
    config = small_config(family="r2d2", ffn_linear="octonion", linear_rank=2)
    assert {(spec.ffn_linear.kind, spec.ffn_linear.rank) for spec in encoder_specs(config)} == {("octonion", 2)}
    with pytest.raises(
        ConfigError, match=r"ffn_linear = 'octonion': expected widths that are a multiple of 8, found 28"
    ):
        small_config(family="r2d2", ffn_linear="octonion", linear_rank=2, ffn_dim=28)
