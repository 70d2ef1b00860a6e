"""Decoding step by step equals the teacher-forced forward, whatever the padding and the batch."""

from typing import Any

import pytest
import torch
from torch import Tensor

from lite_nlp.models.transformer import EncoderDecoder
from tests.unit.models.conftest import randomized, small_config

LENGTHS = (11, 6, 1, 3)
#: In fp64: what happens deep inside a stack of random LayerNorms reaches the logits faintly, and must show.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def _batch(lengths: tuple[int, ...], vocab_size: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(3, vocab_size, (len(lengths), max(lengths)), generator=generator)
    mask = torch.arange(max(lengths))[None, :] < torch.tensor(lengths)[:, None]
    return tokens.where(mask, 0), mask


def _decode(model: EncoderDecoder, src: Tensor, mask: Tensor, tgt: Tensor, capacity: int) -> Tensor:
    state = model.init_state(model.encode(src, mask), mask, capacity)
    logits = []
    for tokens in tgt.unbind(1):
        step_logits, state = model.decode_step(tokens, state)
        logits.append(step_logits)
    return torch.stack(logits, dim=1)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)])
def test_steps_equal_the_forward(variant: dict[str, Any], dtype: torch.dtype, tolerance: float) -> None:
    model = randomized(small_config(**variant)).to(dtype)
    src, mask = _batch(LENGTHS, model.config.src_vocab_size)
    tgt, _ = _batch((40, 40, 40, 40), model.config.tgt_vocab_size)
    with torch.inference_mode():
        full = model(src, mask, tgt)
        for capacity in (40, 57):
            steps = _decode(model, src, mask, tgt, capacity)
            torch.testing.assert_close(steps, full, rtol=tolerance, atol=tolerance)


def test_padding_and_batch_change_nothing(variant: dict[str, Any]) -> None:
    model = randomized(small_config(**variant)).double()
    src, mask = _batch(LENGTHS, model.config.src_vocab_size)
    tgt, _ = _batch((9, 9, 9, 9), model.config.tgt_vocab_size)
    with torch.inference_mode():
        together = model(src, mask, tgt)
        for row, length in enumerate(LENGTHS):
            alone = model(src[row : row + 1, :length], mask[row : row + 1, :length], tgt[row : row + 1])
            torch.testing.assert_close(together[row : row + 1], alone, **CLOSE)
        wider = torch.nn.functional.pad(src, (0, 20), value=5), torch.nn.functional.pad(mask, (0, 20))
        torch.testing.assert_close(model(*wider, tgt), together, **CLOSE)


def test_rows_may_stand_at_different_positions(variant: dict[str, Any]) -> None:
    """A row that joins later decodes as if alone: positions belong to rows, not to the batch."""
    model = randomized(small_config(**variant)).double()
    src, mask = _batch((5, 5), model.config.src_vocab_size)
    tgt, _ = _batch((8, 8), model.config.tgt_vocab_size)
    with torch.inference_mode():
        state = model.init_state(model.encode(src, mask), mask, 8)
        fresh = dict(state)
        for tokens in tgt[:, :3].unbind(1):
            _, state = model.decode_step(tokens, state)
        mixed = {name: torch.cat([state[name][:1], fresh[name][1:]]) for name in state}
        logits, _ = model.decode_step(torch.stack([tgt[0, 3], tgt[1, 0]]), mixed)
        full = model(src, mask, tgt)
    torch.testing.assert_close(logits[0], full[0, 3], **CLOSE)
    torch.testing.assert_close(logits[1], full[1, 0], **CLOSE)


def test_a_step_changes_neither_its_input_nor_the_shapes(variant: dict[str, Any]) -> None:
    model = randomized(small_config(**variant))
    src, mask = _batch((4, 2), model.config.src_vocab_size)
    with torch.inference_mode():
        state = model.init_state(model.encode(src, mask), mask, 6)
        before = {name: value.clone() for name, value in state.items()}
        _, after = model.decode_step(torch.tensor([1, 1]), state)
    assert list(after) == list(state)
    for name, value in state.items():
        assert torch.equal(value, before[name]), name
        assert (after[name].shape, after[name].dtype) == (value.shape, value.dtype), name
    assert after["position"].tolist() == [1, 1]


def test_the_decoder_does_not_see_the_future(variant: dict[str, Any]) -> None:
    model = randomized(small_config(**variant)).double()
    src, mask = _batch((4, 2), model.config.src_vocab_size)
    tgt, _ = _batch((9, 9), model.config.tgt_vocab_size)
    changed = tgt.clone()
    changed[:, 5:] = 4
    with torch.inference_mode():
        torch.testing.assert_close(model(src, mask, tgt)[:, :5], model(src, mask, changed)[:, :5])
