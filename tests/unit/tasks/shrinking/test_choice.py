"""The choice of units: those that matter least to the predictions, per Mult-Add."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.compress.ledger import CompressionSubject
from lite_nlp.compress.metric import Metric
from lite_nlp.compress.prune.structure import Structure
from lite_nlp.compress.work import Work
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.errors import ModelError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.models.build import Model
from lite_nlp.tasks.shrinking.choice import check_shrinkable, shrink_model
from tests.unit.tasks.shrinking.small_models import layered, random_model

CLASSIFIER: dict[str, Any] = {
    "architecture": "sequence-classifier",
    "num_classes": 3,
    "family": "transformer",
    "pre_norm": True,
    "num_encoder_layers": 3,
}


def count_macs(config: ModelConfig) -> int:
    return count_config(config, src_len=9, tgt_len=9).macs_paper


def loaded_model(model: Model) -> LoadedModel:
    config = Config(name="small", model=model.config)
    return LoadedModel(model=model, config=config, tokenizer=cast(Any, None), name="small", metrics={})


def subject_of(model: Model) -> CompressionSubject:
    """The divergence of a classifier's predictions from its own."""
    generator = torch.Generator().manual_seed(2)
    batches = [torch.randint(3, 37, (8, 6), generator=generator) for _ in range(4)]

    def predict(found: nn.Module, tokens: Tensor) -> Tensor:
        log_probs: Tensor = found(tokens, torch.ones_like(tokens, dtype=torch.bool)).log_softmax(dim=-1)
        return log_probs

    with torch.no_grad():
        wanted = [predict(model, tokens) for tokens in batches]

    def evaluate(found: nn.Module) -> float:
        with torch.no_grad():
            pairs = zip(batches, wanted, strict=True)
            return (
                sum(float(F.kl_div(predict(found, x), y, log_target=True, reduction="batchmean")) for x, y in pairs) / 4
            )

    def information(found: nn.Module, tokens: Tensor) -> Tensor:
        log_probs = predict(found, tokens)
        labels = torch.multinomial(log_probs.detach().exp(), 1, generator=torch.Generator().manual_seed(1))
        return -log_probs.gather(1, labels).sum() / len(tokens) ** 0.5

    nothing = cast(Callable[..., Any], lambda *_: None)
    return CompressionSubject(
        name="small",
        files=nothing,
        load=nothing,
        metric=Metric(name="accuracy", label="accuracy", unit="points"),
        score=nothing,
        evaluate=evaluate,
        informing=lambda: batches,
        information=information,
        count_macs=nothing,
    )


def shrink(model: Model, fraction: float, work: Work | None = None) -> tuple[Model, Structure]:
    return shrink_model(
        loaded_model(model),
        fraction,
        subject=subject_of(model),
        count_macs=count_macs,
        work=work,
        progress=SilentProgress(),
    )


def test_the_fraction_goes_and_the_loss_is_what_was_expected() -> None:
    model = random_model(layered(CLASSIFIER))
    before = [tensor.clone() for tensor in model.state_dict().values()]
    smaller, structure = shrink(model, 0.3)
    assert count_macs(smaller.config) <= 0.7 * count_macs(model.config)
    assert structure.macs_after == count_macs(smaller.config)
    assert structure.macs_before == count_macs(model.config)
    assert structure.measured_loss == pytest.approx(subject_of(model).evaluate(smaller), abs=1e-6)
    # Kinds were measured alone; what is left are their interactions.
    assert 0 < structure.expected_loss < 3 * structure.measured_loss
    assert structure.measured_loss < 3 * structure.expected_loss
    for removal in structure.removed:
        key = removal.key.removeprefix("model.")
        assert (getattr(model.config, key), getattr(smaller.config, key)) == (removal.before, removal.after)
    assert all(torch.equal(*pair) for pair in zip(model.state_dict().values(), before, strict=True))


def test_units_and_layers_without_effect_go_first() -> None:
    model = random_model(layered(CLASSIFIER))
    state = model.state_dict()
    with torch.no_grad():
        # A layer that adds nothing, and half of the channels of the others.
        for name in ("mixer.attention.out_proj", "ffn.down_proj"):
            state[f"encoder.1.{name}.weight"].zero_()
            state[f"encoder.1.{name}.bias"].zero_()
        for layer in (0, 2):
            state[f"encoder.{layer}.ffn.down_proj.weight"][:, ::2] = 0
            state[f"encoder.{layer}.ffn.up_proj.weight"][::2] = 0
            state[f"encoder.{layer}.ffn.up_proj.bias"][::2] = 0
    smaller, structure = shrink(model, 0.4)
    removed = {removal.key: removal for removal in structure.removed}
    assert removed["model.num_encoder_layers"].positions == (1,)
    assert removed["model.ffn_dim"].after >= 16
    assert set(removed) <= {"model.num_encoder_layers", "model.ffn_dim"}
    assert structure.measured_loss == pytest.approx(0, abs=1e-6)
    assert smaller.config.num_encoder_layers == 2
    assert structure.as_dict()["removed"][-1]["positions"] == [1]


def test_an_interrupted_choice_is_not_made_again(tmp_path: Path) -> None:
    model = random_model(layered(CLASSIFIER))
    first, structure = shrink(model, 0.3, Work(tmp_path / "work", "key"))
    subject = subject_of(model)
    with torch.no_grad():
        model.encoder[0].ffn.up_proj.weight.zero_()
    again, repeated = shrink(model, 0.3, Work(tmp_path / "work", "key"))
    assert repeated == structure
    assert again.config == first.config
    assert subject.evaluate(again) != subject.evaluate(first)


def test_what_cannot_be_reached_is_refused_with_what_can() -> None:
    loaded = loaded_model(random_model(layered(CLASSIFIER)))
    check_shrinkable(loaded, 0.7, count_macs)
    with pytest.raises(ModelError) as raised:
        check_shrinkable(loaded, 0.95, count_macs)
    message = str(raised.value)
    assert message.startswith("small: structured pruning: expected to remove 95.0% of ")
    assert "feed-forward channels 32 -> 8, heads of self-attention 4 -> 1, encoder layers 3 -> 1" in message
    least = {**CLASSIFIER, "num_encoder_layers": 1, "ffn_dim": 8, "num_heads": 1, "head_dim": 8}
    most = 1 - count_macs(layered(least)) / count_macs(loaded.config.model)
    assert f"at most {most:.1%} can go" in message
    check_shrinkable(loaded, most - 1e-6, count_macs)


def test_nothing_to_remove() -> None:
    values = {**CLASSIFIER, "num_encoder_layers": 1, "num_heads": 1, "ffn_dim": 1}
    with pytest.raises(ModelError, match=r"at most 0\.0% can go, since nothing of it can be stated smaller"):
        check_shrinkable(loaded_model(random_model(layered(values))), 0.1, count_macs)
