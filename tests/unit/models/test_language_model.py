"""Language models of every family: token by token equals all at once, and every property of the translation models."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from lite_nlp.artifacts.directory import load_model_directory, model_from_state, save_model_directory
from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import DataError, ModelError
from lite_nlp.models.build import as_encoder_decoder, as_language_model
from lite_nlp.models.conversion import Conversion, constant_state_bytes, convert_config, convert_model
from lite_nlp.models.language_model import LanguageModel
from tests.selection import VARIANT_NAMES, select
from tests.unit.models.conftest import randomized, small_config
from tests.unit.models.language_models import LM_VARIANTS, TYPES, language_model, language_model_config

#: In fp64: what happens deep inside a stack of random LayerNorms reaches the logits faintly, and must show.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


@pytest.fixture(params=select(LM_VARIANTS, [*VARIANT_NAMES, "adaptive", "adaptive-t2r"]))
def variant(request: pytest.FixtureRequest) -> dict[str, Any]:
    return LM_VARIANTS[request.param]


def _text(rows: int, length: int) -> Tensor:
    return torch.randint(0, TYPES, (rows, length), generator=torch.Generator().manual_seed(rows * length))


def _read(model: LanguageModel, text: Tensor, capacity: int, parts: list[int]) -> list[Tensor]:
    """The logits after each part of the text."""
    state, logits = model.init_state(len(text), capacity), []
    for part in text.split(parts, dim=1):
        found, state = model.read(part, state)
        logits.append(found)
    return logits


def _generate(model: LanguageModel, text: Tensor, capacity: int) -> Tensor:
    state, logits = model.init_state(len(text), capacity), []
    for tokens in text.unbind(1):
        step, state = model.decode_step(tokens, state)
        logits.append(step)
    return torch.stack(logits, dim=1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_steps_equal_the_forward(variant: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    model, text = language_model(**variant).to(dtype), _text(3, 40)
    with torch.inference_mode():
        full = model(text)
        for capacity in (40, 57):
            torch.testing.assert_close(_generate(model, text, capacity), full, rtol=tolerance, atol=tolerance)


def test_a_text_may_be_read_in_any_parts(variant: dict[str, Any]) -> None:
    model, text = language_model(**variant).double(), _text(3, 40)
    with torch.inference_mode():
        full = model(text)
        for parts in ([40], [1, 2, 30, 7], [17, 1, 22], [39, 1]):
            ends = [sum(parts[: place + 1]) - 1 for place in range(len(parts))]
            found = torch.stack(_read(model, text, 43, parts), dim=1)
            torch.testing.assert_close(found, full[:, ends], **CLOSE)


def test_padding_and_batch_change_nothing(variant: dict[str, Any]) -> None:
    model, text = language_model(**variant).double(), _text(4, 11)
    with torch.inference_mode():
        together = model(text)
        for row, length in enumerate((11, 6, 1, 3)):
            alone = model(text[row : row + 1, :length])
            torch.testing.assert_close(together[row : row + 1, :length], alone, **CLOSE)
        torch.testing.assert_close(model(F.pad(text, (0, 20), value=5))[:, :11], together, **CLOSE)


def test_rows_may_stand_at_different_positions(variant: dict[str, Any]) -> None:
    model, text = language_model(**variant).double(), _text(2, 8)
    with torch.inference_mode():
        state = fresh = model.init_state(2, 8)
        for tokens in text[:, :3].unbind(1):
            _, state = model.decode_step(tokens, state)
        mixed = {name: torch.cat([state[name][:1], fresh[name][1:]]) for name in state}
        logits, _ = model.decode_step(torch.stack([text[0, 3], text[1, 0]]), mixed)
        full = model(text)
    torch.testing.assert_close(logits[0], full[0, 3], **CLOSE)
    torch.testing.assert_close(logits[1], full[1, 0], **CLOSE)


@pytest.mark.parametrize("length", [1, 4])
def test_reading_changes_neither_its_input_nor_the_shapes(variant: dict[str, Any], length: int) -> None:
    model = language_model(**variant)
    with torch.inference_mode():
        state = model.init_state(2, 6)
        before = {name: value.clone() for name, value in state.items()}
        _, after = model.read(torch.ones(2, length, dtype=torch.int64), state)
    assert list(after) == list(state)
    for name, value in state.items():
        assert torch.equal(value, before[name]), name
        assert (after[name].shape, after[name].dtype) == (value.shape, value.dtype), name
    assert after["position"].tolist() == [length, length]


def test_the_state_is_as_large_as_the_formula_says(variant: dict[str, Any]) -> None:
    model = language_model(**variant)
    numbers = {name: value[0].numel() for name, value in model.init_state(3, 23).items()}
    assert numbers.pop("position") == 1
    assert sum(numbers.values()) == sum(count_state(model.config, tgt_len=23).values())


def test_no_token_sees_the_future(variant: dict[str, Any]) -> None:
    model, text = language_model(**variant).double(), _text(2, 9)
    changed = text.clone()
    changed[:, 5:] = 4
    with torch.inference_mode():
        torch.testing.assert_close(model(text)[:, :5], model(changed)[:, :5])


def test_target_log_probs_are_those_of_the_logits(variant: dict[str, Any]) -> None:
    model, text, labels = language_model(**variant).double(), _text(3, 12), _text(3, 12).flip(1)
    with torch.inference_mode():
        expected = -F.cross_entropy(model(text).transpose(1, 2), labels, reduction="none")
        torch.testing.assert_close(model.target_log_probs(text, labels), expected, **CLOSE)


def test_saved_and_loaded_equals_original(variant: dict[str, Any], tmp_path: Path) -> None:
    model, text = language_model(**variant), _text(2, 7)
    config = Config(name="small", model=model.config)
    save_model_directory(tmp_path, config=config, state=model.state_dict(), tokenizer_json=b"{}", metrics={})
    loaded = load_model_directory(tmp_path)
    assert loaded.config == config
    again = as_language_model(model_from_state(loaded.config, loaded.state, source="test"), source="test")
    assert torch.equal(again(text), model(text))


def test_every_tensor_has_one_name(variant: dict[str, Any]) -> None:
    state = language_model(**variant).state_dict()
    assert len({tensor.data_ptr() for tensor in state.values()}) == len(state)


def _trained(variant: dict[str, Any], *, bf16: bool) -> tuple[LanguageModel, Tensor]:
    model = language_model(**{**variant, "dropout": 0.1, "attention_dropout": 0.1, "conv_dropout": 0.1}).train()
    text = _text(5, 41)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        loss = -model.target_log_probs(text[:, :-1], text[:, 1:]).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    return model, loss


def test_gradients_reach_every_parameter(variant: dict[str, Any]) -> None:
    for name, parameter in _trained(variant, bf16=False)[0].named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_bf16_step_stays_finite(variant: dict[str, Any]) -> None:
    model, loss = _trained(variant, bf16=True)
    assert torch.isfinite(loss)
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters() if parameter.grad is not None)


def test_layers_are_those_of_torch() -> None:
    """A pre-norm stack with the weights of ``torch.nn.TransformerEncoderLayer`` under a causal mask."""
    model = language_model(family="transformer", pre_norm=True, final_norm=True)
    text = _text(2, 9)
    x = model.vocabulary.embed(text) * 4 + model.positions.first(9)
    for layer in model.layers:
        oracle = torch.nn.TransformerEncoderLayer(16, 2, dim_feedforward=24, batch_first=True, norm_first=True).eval()
        weights = layer.state_dict()
        names = {
            "self_attn.in_proj_": "mixer.attention.in_proj.",
            "self_attn.out_proj.": "mixer.attention.out_proj.",
            "linear1.": "ffn.up_proj.",
            "linear2.": "ffn.down_proj.",
            "norm1.": "mixer_norm.",
            "norm2.": "ffn_norm.",
        }
        oracle.load_state_dict(
            {theirs + end: weights[ours + end] for theirs, ours in names.items() for end in ("weight", "bias")}
        )
        x = oracle(x, src_mask=torch.nn.Transformer.generate_square_subsequent_mask(9), is_causal=True)
    expected = F.linear(model.norm(x), model.vocabulary.table.weight)
    torch.testing.assert_close(model(text), expected, rtol=1e-4, atol=1e-4)


def test_an_untied_output_has_its_own_table() -> None:
    assert language_model(family="transformer", tie_embeddings="none").vocabulary.own_output.weight.shape == (TYPES, 16)


def test_long_texts_need_no_quadratic_mask() -> None:
    assert not language_model(**LM_VARIANTS["t2r"]).layers.needs_causal_mask
    assert language_model(**LM_VARIANTS["t2r-every-second"]).layers.needs_causal_mask


def test_texts_beyond_the_positions_are_refused() -> None:
    model = language_model(family="transformer", max_positions=8)
    with pytest.raises(DataError, match=r"sequence of 9 tokens: expected at most model.max_positions = 8"):
        model(_text(1, 9))


def test_converted_models_keep_their_weights_and_a_constant_state() -> None:
    model = language_model(family="transformer")
    config = Config(name="plain", model=model.config)
    converted_config = convert_config(config, Conversion(causal=5, cross=None), name="plain")
    assert converted_config.model == model.config.model_copy(
        update={"family": "t2r", "self_attention": "t2r", "self_feature_size": 5}
    )
    converted = as_language_model(convert_model(model, converted_config), source="plain")
    weights = converted.state_dict()
    assert all(torch.equal(weights[name], tensor) for name, tensor in model.state_dict().items())
    # Per layer, in fp32: 5 features by 16 channels of all heads, and 2 heads of 5 sums.
    assert constant_state_bytes(converted) == 2 * 4 * (5 * 16 + 2 * 5)


def test_cross_attention_that_is_not_there_cannot_be_converted() -> None:
    config = Config(name="plain", model=language_model_config(family="transformer"))
    with pytest.raises(ModelError, match=r"plain: expected cross-attention to convert, found a language-model"):
        convert_config(config, Conversion(causal=5, cross=5), name="plain")


def test_maps_merged_into_the_projections_change_nothing() -> None:
    model, text = language_model(**{**LM_VARIANTS["t2r"], "self_feature_size": 4}).double(), _text(2, 30)
    attention = model.layers[0].mixer.attention
    with torch.inference_mode():
        assert attention.merged.kept(torch.zeros(1, 1, 16, dtype=torch.float64))
        merged = model(text), _generate(model, text, 30)
    model.train()
    with torch.no_grad():
        assert not attention.merged.kept(torch.zeros(1, 1, 16, dtype=torch.float64))
        apart = model(text)
    for output in merged:
        torch.testing.assert_close(output, apart, **CLOSE)


def test_a_model_of_the_wrong_kind_is_named() -> None:
    language, translation = language_model(family="transformer"), randomized(small_config(family="transformer"))
    with pytest.raises(ModelError, match=r"runs/x: expected an encoder-decoder, found a language-model"):
        as_encoder_decoder(language, source="runs/x")
    with pytest.raises(ModelError, match=r"runs/x: expected a language-model, found an encoder-decoder"):
        as_language_model(translation, source="runs/x")
