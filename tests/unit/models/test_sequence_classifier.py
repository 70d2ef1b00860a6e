"""The encoder with one output per text: the encoder-decoder's own encoder, whatever the family."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lite_nlp.artifacts.directory import model_from_state
from lite_nlp.config.model import EncoderDecoderConfig, PairClassifierConfig, SequenceClassifierConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ConfigError
from lite_nlp.models.build import build_model
from lite_nlp.models.lstm_classifiers import PairClassifier
from lite_nlp.models.sequence_classifier import SequenceClassifier, pool_mean

THREE = {"num_encoder_layers": 3}
VARIANTS: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer"},
    "pre-norm": {"family": "transformer", "pre_norm": True, "final_norm": True},
    "lsra": {"family": "lite-transformer", "kernel_sizes": (3, 5)},
    "lightconv": {"family": "lightconv", "kernel_sizes": (3, 5), "conv_glu": True},
    "sandwich-safe": {
        "family": "subformer", **THREE, "sharing": "sandwich", "sandwich_dim": 20, "embedding": "safe",
        "embedding_dim": 10,
    },
    "linear-embedding": {"family": "subformer", "embedding": "linear", "embedding_dim": 6, "sharing": "all"},
    "r2d2": {"family": "r2d2", "attention_linear": "r2d2", "ffn_linear": "r2d2", "linear_n": 4},
    "quaternion": {"family": "r2d2", "attention_linear": "quaternion", "ffn_linear": "quaternion"},
    "expanded": {"family": "transformer", "attention_expansion": 2},
}  # fmt: skip


@pytest.fixture(params=VARIANTS)
def config(request: pytest.FixtureRequest) -> SequenceClassifierConfig:
    values = {
        "embed_dim": 16, "ffn_dim": 24, "num_heads": 2, "conv_num_heads": 2,
        "num_encoder_layers": 2, "src_vocab_size": 37, "num_classes": 3, "dropout": 0.0,
    }  # fmt: skip
    return SequenceClassifierConfig(**{**values, **VARIANTS[request.param]})


def _random(config: SequenceClassifierConfig) -> SequenceClassifier:
    torch.manual_seed(7)
    model = build_model(config)
    assert isinstance(model, SequenceClassifier)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    return model.eval()


def _texts() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(3, 37, (4, 7), generator=torch.Generator().manual_seed(1))
    return tokens, torch.arange(7) < torch.tensor([7, 1, 5, 3])[:, None]


def test_states_are_those_of_the_encoder_decoder(config: SequenceClassifierConfig) -> None:
    model = _random(config)
    values = config.model_dump(exclude={"architecture", "num_classes"}, exclude_defaults=True)
    whole = build_model(
        EncoderDecoderConfig(
            **values,
            tgt_vocab_size=37,
            num_decoder_layers=config.num_encoder_layers,
            decoder_kernel_sizes=config.kernel_sizes,
        )
    ).eval()
    state = {
        name.replace("embedding.", "src_embedding.", 1) if name.startswith("embedding.") else name: tensor
        for name, tensor in model.state_dict().items()
        if not name.startswith("output.")
    }
    state = {f"src_{name}" if name.startswith("input.") else name: tensor for name, tensor in state.items()}
    missing, unexpected = whole.load_state_dict(state, strict=False)
    assert not unexpected
    assert not any(name.startswith(("encoder", "src_")) for name in missing)
    tokens, mask = _texts()
    with torch.no_grad():
        states = whole.encode(tokens, mask)
        means = torch.stack([row[:length].mean(dim=0) for row, length in zip(states, mask.sum(dim=1), strict=True)])
        expected = means @ model.output.weight.T + model.output.bias
        torch.testing.assert_close(model(tokens, mask), expected)


def test_padding_and_batch_composition_change_no_logits(config: SequenceClassifierConfig) -> None:
    model = _random(config)
    tokens, mask = _texts()
    with torch.no_grad():
        together = model(tokens, mask)
        for row, length in enumerate(mask.sum(dim=1).tolist()):
            alone = model(tokens[row : row + 1, :length], mask[row : row + 1, :length])
            torch.testing.assert_close(alone[0], together[row], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model(tokens.masked_fill(~mask, 1), mask), together)


def test_loaded_equals_saved(config: SequenceClassifierConfig) -> None:
    from lite_nlp.config.preset import Config

    model = _random(config)
    loaded = model_from_state(Config(name="c", model=config), model.state_dict(), source="here")
    with torch.no_grad():
        torch.testing.assert_close(loaded(*_texts()), model(*_texts()))


@pytest.mark.parametrize("bf16", [False, True])
def test_gradients_are_finite_and_reach_every_parameter(config: SequenceClassifierConfig, bf16: bool) -> None:
    model = _random(config.model_copy(update={"dropout": 0.1})).train()
    torch.manual_seed(2)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(*_texts())
    F.cross_entropy(logits.float(), torch.tensor([0, 1, 2, 1])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        if not bf16:
            assert parameter.grad.abs().max() > 0, name


def test_pooling_takes_real_tokens_only() -> None:
    states = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [9.0, float("nan")]]])
    assert pool_mean(states, torch.tensor([[True, True, False]])).tolist() == [[2.0, -3.0]]


def test_pair_classifiers_are_built_too() -> None:
    values = {"family": "r2d2", "lstm_linear": "r2d2", "linear_n": 5}
    built = build_model(PairClassifierConfig(**values, embed_dim=20, ffn_dim=6, num_classes=2))
    assert isinstance(built, PairClassifier)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_classes": 1}, "num_classes: input should be greater than or equal to 2, found 1"),
        ({"family": "transformer"}, "family: expected 'lstm' or 'r2d2' in a pair-classifier, found 'transformer'"),
        ({"family": "r2d2"}, "family = 'r2d2': expected one of these to be set"),
        ({"num_heads": 2}, "num_heads: a pair-classifier has no such key, found 2"),
        ({"attention_expansion": 2}, "attention_expansion: a pair-classifier has no such key, found 2"),
        (
            {"architecture": "sequence-classifier"},
            "family: expected 'transformer', .* or 'r2d2' in a sequence-classifier, found 'lstm'",
        ),
        (
            {"architecture": "encoder-decoder", "family": "transformer"},
            "num_classes: an encoder-decoder has no such key, found 3",
        ),
        (
            {"architecture": "sequence-classifier", "family": "transformer", "lstm_linear": "quaternion"},
            "lstm_linear: a sequence-classifier has no such key, found 'quaternion'",
        ),
        (
            {"lstm_linear": "r2d2", "linear_n": 3},
            "expected widths that are a multiple of linear_n = 3",
        ),
        (
            {"embedding_dim": 12, "lstm_linear": "low-rank", "linear_rank": 13},
            "linear_rank: expected at most the widths",
        ),
    ],
)
def test_configs_that_make_no_classifier(changes: dict[str, Any], message: str) -> None:
    values = {"architecture": "pair-classifier", "family": "lstm", "embed_dim": 20, "ffn_dim": 6, "num_classes": 3}
    with pytest.raises(ConfigError, match=message):
        parse_model({**values, **changes})
