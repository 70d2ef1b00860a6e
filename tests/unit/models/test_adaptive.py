"""Adaptive inputs and softmax against torch's module, a loop over tokens, and the published sizes."""

import pytest
import torch
from torch import Tensor

from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import parse_model
from lite_nlp.core.errors import ModelError
from lite_nlp.models.adaptive import AdaptiveVocabulary
from lite_nlp.models.build import as_language_model, build_model
from lite_nlp.models.pretrained import load_first_types

CUTOFFS = (6, 14)


def _config(**changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "architecture": "language-model",
        "family": "transformer",
        "embedding": "adaptive",
        "adaptive_cutoffs": CUTOFFS,
        "adaptive_factor": 4,
        "embed_dim": 32,
        "ffn_dim": 8,
        "tgt_vocab_size": 25,
    }
    return parse_model({**values, **changes})


@pytest.fixture
def vocabulary() -> AdaptiveVocabulary:
    torch.manual_seed(3)
    vocabulary = AdaptiveVocabulary(config=_config()).double()
    for parameter in vocabulary.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return vocabulary


def test_the_softmax_is_that_of_torch(vocabulary: AdaptiveVocabulary) -> None:
    """``torch.nn.AdaptiveLogSoftmaxWithLoss`` (Grave et al., 2017) with the same weights."""
    oracle = torch.nn.AdaptiveLogSoftmaxWithLoss(32, 25, cutoffs=list(CUTOFFS), div_value=4.0).double()
    oracle.load_state_dict(
        {
            "head.weight": torch.cat([vocabulary.tables[0], vocabulary.clusters.weight]),
            "tail.0.0.weight": vocabulary.projections[1].weight.T,
            "tail.0.1.weight": vocabulary.tables[1],
            "tail.1.0.weight": vocabulary.projections[2].weight.T,
            "tail.1.1.weight": vocabulary.tables[2],
        }
    )
    x, labels = torch.randn(40, 32, dtype=torch.float64), torch.randint(0, 25, (40,))
    log_probs = vocabulary.logits(x)
    torch.testing.assert_close(log_probs, oracle.log_prob(x))
    torch.testing.assert_close(vocabulary.target_log_probs(x, labels), oracle(x, labels).output)
    torch.testing.assert_close(log_probs.exp().sum(dim=-1), torch.ones(40, dtype=torch.float64))


def test_embeddings_are_those_of_each_token_alone(vocabulary: AdaptiveVocabulary) -> None:
    tokens = torch.arange(25).view(5, 5)

    def embed(token: int) -> Tensor:
        band = sum(token >= cutoff for cutoff in CUTOFFS)
        row = vocabulary.tables[band][token - (0, *CUTOFFS)[band]]
        return torch.mv(vocabulary.projections[band].weight, row)

    expected = torch.stack([embed(token) for token in range(25)]).view(5, 5, 32)
    torch.testing.assert_close(vocabulary.embed(tokens), expected)


def test_a_batch_without_a_band_leaves_its_table_without_gradient(vocabulary: AdaptiveVocabulary) -> None:
    """Gradients exist for all, zero where nothing was read: several processes have to agree on what has one."""
    tokens = torch.tensor([[1, 7, 2]])
    x = vocabulary.embed(tokens)
    (-vocabulary.target_log_probs(x, tokens).sum()).backward()
    for name, parameter in vocabulary.named_parameters():
        assert parameter.grad is not None, name
    assert vocabulary.tables[2].grad.abs().max() == 0
    assert vocabulary.projections[2].weight.grad.abs().max() == 0
    assert vocabulary.tables[1].grad.abs().max() > 0


def test_targets_need_no_tensor_over_the_vocabulary() -> None:
    """With the last two bands unused, no tensor as wide as they are is made."""
    vocabulary = AdaptiveVocabulary(config=_config(tgt_vocab_size=5000))
    widest = 0

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            nonlocal widest
            result = function(*args, **(kwargs or {}))
            if isinstance(result, Tensor) and not isinstance(result, torch.nn.Parameter):
                widest = max(widest, result.numel())
            return result

    with Watch(), torch.no_grad():
        vocabulary.target_log_probs(torch.randn(9, 32), torch.tensor([0, 1, 2, 3, 4, 5, 0, 1, 4999]))
    # One row of the last band, not nine.
    assert widest < 2 * (5000 - CUTOFFS[-1])


def test_sizes_of_the_lite_transformers_language_model() -> None:
    """Cutoffs 20,000 and 60,000 of 267,744 types at width 896, counted in the authors' code: 38.5M and 1.05M."""
    config = _config(embed_dim=896, tgt_vocab_size=267_744, adaptive_cutoffs=(20_000, 60_000))
    with torch.device("meta"):
        vocabulary = AdaptiveVocabulary(config=config)
    assert sum(table.numel() for table in vocabulary.tables) == 38_513_664
    assert sum(projection.weight.numel() for projection in vocabulary.projections) == 1_053_696
    assert vocabulary.clusters.weight.numel() == 2 * 896


def test_weights_of_more_types_are_loaded_as_those_of_the_first() -> None:
    larger, model = build_model(_config()).eval(), build_model(_config(tgt_vocab_size=20)).eval()
    load_first_types(model, larger.state_dict())
    tokens = torch.randint(0, 20, (3, 7))
    # The softmax is over all types, and its clusters are the first choice: within a cluster the ratios stay.
    found, expected = (as_language_model(each, source="test")(tokens) for each in (model, larger))
    torch.testing.assert_close(found[..., : CUTOFFS[1]], expected[..., : CUTOFFS[1]])
    ratios = [logits[..., 14:20] - logits[..., 14:15] for logits in (found, expected)]
    torch.testing.assert_close(*ratios)
    with pytest.raises(ModelError, match="initial weights: expected those of the same model with as many"):
        load_first_types(larger, model.state_dict())
