import numpy as np
import pytest
import torch

from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.decoding.search import SearchOptions, search
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.models.build import build_model

VOCAB = 40
COMMON = {
    "src_vocab_size": VOCAB, "tgt_vocab_size": VOCAB, "embed_dim": 16, "ffn_dim": 16, "num_encoder_layers": 2,
    "num_decoder_layers": 2, "num_heads": 2, "cross_num_heads": 2, "conv_num_heads": 2, "max_positions": 64,
}  # fmt: skip
KERNELS = {"kernel_sizes": (3, 5), "decoder_kernel_sizes": (3, 4)}


def make_model(family):
    torch.manual_seed(0)
    config = EncoderDecoderConfig(family=family, **COMMON, **({} if family == "transformer" else KERNELS))
    model = build_model(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)  # sharper distributions: rounding must not decide which token is best
    return model


def greedy_by_forward(model, row, steps):
    """Greedy decoding that runs the whole teacher-forced model for each token."""
    source = torch.tensor([[*row, 2]])
    tokens = []
    while len(tokens) < steps - 1:
        with torch.no_grad():
            logits = model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[1, *tokens]]))[0, -1]
        token = int(logits[2:].argmax()) + 2
        if token == 2:
            break
        tokens.append(token)
    return tokens


ROWS = [[7, 8, 9, 30], [5], [11, 12, 13, 14, 15, 16, 17, 18, 19], [39, 3]]


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
def test_greedy_search_in_a_padded_batch_equals_the_forward_pass(family):
    model = make_model(family)
    options = SearchOptions(max_length_ratio=1.0, max_length_extra=8)
    found = search(TorchStepModel(model), ROWS, options)
    for row, hypothesis in zip(ROWS, found, strict=True):
        assert hypothesis.tokens == greedy_by_forward(model, row, options.steps(len(row)))


@pytest.mark.parametrize("family", ["transformer", "lite-transformer", "lightconv"])
def test_beam_search_reorders_every_cache(family):
    model = make_model(family)
    options = SearchOptions(beam_size=4, length_penalty=0.0, max_length_ratio=1.0, max_length_extra=8)
    for row, hypothesis in zip(ROWS, search(TorchStepModel(model), ROWS, options), strict=True):
        source = torch.tensor([[*row, 2]])
        with torch.no_grad():
            logits = model(source, torch.ones_like(source, dtype=torch.bool), torch.tensor([[1, *hypothesis.tokens]]))
        log_probabilities = logits.log_softmax(-1)[0]
        expected = sum(log_probabilities[i, t].item() for i, t in enumerate([*hypothesis.tokens, 2]))
        assert hypothesis.score == pytest.approx(expected, abs=1e-4)


def test_numpy_on_both_sides():
    engine = TorchStepModel(make_model("lite-transformer"))
    state = engine.start(np.array([[5, 2]]), np.ones((1, 2), bool), 3)
    logits, state = engine.step(np.array([1, 1]), engine.reorder(state, np.array([0, 0])))
    assert isinstance(logits, np.ndarray)
    assert (logits.dtype, logits.shape) == (np.float32, (2, VOCAB))
    assert not any(value.requires_grad for value in state.values())
