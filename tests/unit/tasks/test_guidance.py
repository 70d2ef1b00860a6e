"""What compression is told about a task: its losses against closed forms, and what is scanned, tuned on and judged."""

import math
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from lite_nlp import prepare_data
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.config.preset import Config, TrainingConfig, parse_model
from lite_nlp.core.errors import DataError
from lite_nlp.data.labelled.directory import LabelledBatch, open_labelled
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.text.directory import TextBlocks, open_running_text
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.models.build import build_model
from lite_nlp.tasks.calibration import (
    Guidance,
    distillation_loss,
    divergence_from,
    mean_loss,
    projected_distillation_loss,
    spaced,
)
from lite_nlp.tasks.classification.calibration import guide_by_labels
from lite_nlp.tasks.language_modelling.calibration import guide_by_text
from lite_nlp.tasks.translation.bleu import TRANSLATION_SCORER
from lite_nlp.tasks.translation.calibration import guide_by_pairs

NAMES = ["cat", "dog", "fox"]
BLOCK = 16


class Fixed(nn.Module):
    """Says the same probabilities for every example."""

    def __init__(self, *probabilities: float) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probabilities).log())


def predict(model: nn.Module, batch: list[int]) -> tuple[Tensor, Tensor]:
    assert isinstance(model, Fixed)
    return model.logits.log_softmax(dim=-1).expand(len(batch), -1), torch.tensor(batch)


def test_losses_are_means_over_the_predictions_of_all_batches() -> None:
    # Two batches of different sizes: the mean is over three predictions, not over two batches.
    batches = [[0, 1], [1]]
    even, uneven = Fixed(0.5, 0.5), Fixed(0.25, 0.75)
    assert mean_loss(predict, uneven, batches) == pytest.approx((math.log(4) + 2 * math.log(4 / 3)) / 3)
    divergence = divergence_from(predict, even, batches)
    assert divergence(even) == pytest.approx(0, abs=1e-7)
    assert divergence(uneven) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))


@pytest.mark.parametrize("label_weight", [0.0, 0.25])
def test_distillation_mixes_the_predictions_of_the_teacher_and_the_labels(label_weight: float) -> None:
    student = Fixed(0.25, 0.75)
    loss = distillation_loss(predict, Fixed(0.5, 0.5), label_weight)(student, [1, 1])
    imitated = 0.5 * math.log(4) + 0.5 * math.log(4 / 3)
    assert loss.item() == pytest.approx((1 - label_weight) * imitated + label_weight * math.log(4 / 3))
    loss.backward()
    # The gradient of a cross entropy in the logits: what is said less what should be.
    wanted = 0.5 * (1 - label_weight) + label_weight
    assert student.logits.grad is not None
    assert student.logits.grad.tolist() == pytest.approx([wanted - 0.75, 0.75 - wanted])


def test_distillation_multiplies_in_the_precision_asked_for() -> None:
    model = nn.Linear(256, 4)
    batch = torch.randn(3, 256, generator=torch.Generator().manual_seed(1))
    types = []

    def observe(model: nn.Module, batch: Tensor) -> tuple[Tensor, Tensor]:
        logits = model(batch)
        types.append(logits.dtype)
        return logits.log_softmax(dim=-1, dtype=torch.float32), torch.zeros(len(batch), dtype=torch.int64)

    exact = distillation_loss(observe, model, 0.5)(model, batch)
    rounded = distillation_loss(observe, model, 0.5, precision="bf16")(model, batch)
    assert types == [torch.float32] * 2 + [torch.bfloat16] * 2
    assert rounded.dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=2e-2, atol=0)


def test_evenly_spaced_numbers() -> None:
    assert spaced(np.arange(10), 4).tolist() == [0, 3, 6, 9]
    assert spaced(np.arange(3), 5).tolist() == [0, 1, 2]


def _loaded(tokenizer: Tokenizer, metrics: dict[str, object], **model: object) -> LoadedModel:
    sizes = {"embed_dim": 16, "ffn_dim": 16, "num_heads": 2, "max_positions": 24, "family": "transformer"}
    config = Config(
        name="tiny",
        model=parse_model({**sizes, **model}),
        training=TrainingConfig(block_tokens=BLOCK, max_tokens=5),
    )
    torch.manual_seed(1)
    return LoadedModel(build_model(config.model).eval(), config, tokenizer, "tiny", metrics)


def _prepare_text(out: Path, train: list[str], tokenizer: Tokenizer | None = None) -> None:
    for name, lines in (("train", train), ("valid", ["the dog", "and the cat"])):
        (out.parent / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    train_file, valid_file = (out.parent / f"{name}.txt" for name in ("train", "valid"))
    size = None if tokenizer else 270
    prepare_data(out, text=train_file, valid_text=valid_file, vocab_size=size, tokenizer=tokenizer)


def _text_model(data: Path, **model: object) -> LoadedModel:
    tokenizer = open_running_text(data).tokenizer
    layers = {"architecture": "language-model", "num_decoder_layers": 1, "tgt_vocab_size": tokenizer.vocab_size}
    return _loaded(tokenizer, {}, **layers, **model)


def _said(blocks: TextBlocks) -> list[tuple[int, ...]]:
    return [tuple(row) for row in blocks.labels.tolist()]


def test_no_block_of_a_text_is_both_scanned_and_tuned_on(tmp_path: Path) -> None:
    # Each line, and so each block, is unlike all others.
    _prepare_text(tmp_path / "data", [f"{number} {number * number} {number**3}" for number in range(600)])
    guidance = guide_by_text(_text_model(tmp_path / "data"), tmp_path / "data")
    stream = open_running_text(tmp_path / "data").stream("train")
    blocks = {tuple(stream.read(start, start + BLOCK).tolist()) for start in range(0, len(stream) - BLOCK, BLOCK)}
    scanned = {row for batch in guidance.scan for row in _said(batch)} & blocks
    assert len(scanned) >= 2048 // BLOCK - 1
    rows = 1024 // BLOCK
    epoch = [row for batch in islice(guidance.tuning(), len(blocks) // rows) for row in _said(batch)]
    tuned = set(epoch) & blocks
    assert len(tuned) > 0.8 * (len(blocks) - len(scanned))
    assert not scanned & tuned


def test_the_predictions_for_a_text_leave_padding_out(tmp_path: Path) -> None:
    _prepare_text(tmp_path / "data", ["the cat and the dog"] * 20)
    loaded = _text_model(tmp_path / "data")
    guidance = guide_by_text(loaded, tmp_path / "data")
    blocks = TextBlocks(np.array([[2, 7, 9], [2, 8, 0]]), np.array([[7, 9, 11], [8, 12, 0]]))
    log_probs, labels = guidance.predict(loaded.model, blocks)
    assert labels.tolist() == [7, 9, 11, 8, 12]
    alone = loaded.model(torch.tensor([[2, 8]]))[0].log_softmax(dim=-1)
    torch.testing.assert_close(log_probs[3:], alone, rtol=1e-5, atol=1e-5)


def test_a_text_of_less_than_a_block_is_divided_too(tmp_path: Path) -> None:
    _prepare_text(tmp_path / "data", ["cat"])
    guidance = guide_by_text(_text_model(tmp_path / "data"), tmp_path / "data")
    train = open_running_text(tmp_path / "data").stream("train")
    assert len(train) < BLOCK
    scanned = sum(int(np.count_nonzero(batch.labels)) for batch in guidance.scan)
    tuned = int(np.count_nonzero(next(guidance.tuning()).labels))
    assert scanned > 0
    assert tuned > 0
    assert scanned + tuned <= len(train)
    (tmp_path / "one").mkdir()
    _prepare_text(tmp_path / "one" / "data", [""], open_running_text(tmp_path / "data").tokenizer)
    with pytest.raises(DataError, match="expected at least two tokens to train on, found 1"):
        guide_by_text(_text_model(tmp_path / "one" / "data"), tmp_path / "one" / "data")


def _same_gradients(guidance: Guidance, student: nn.Module, teacher: nn.Module, batch: object) -> None:
    """The loss without logits has the gradients of the other."""
    assert guidance.project is not None
    gradients = []
    for loss in (
        distillation_loss(guidance.predict, teacher, 0.3),
        projected_distillation_loss(guidance.project, teacher, 0.3),
    ):
        student.zero_grad()
        loss(student, batch).backward()
        gradients.append({name: value.grad for name, value in student.named_parameters() if value.grad is not None})
    assert gradients[0].keys() == gradients[1].keys()
    for name, expected in gradients[0].items():
        torch.testing.assert_close(gradients[1][name], expected, rtol=1e-4, atol=1e-6, msg=name)


def _made_unlike(model: LoadedModel) -> nn.Module:
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.mul_(1.5)
    return model.model


def test_tuning_of_a_language_model_needs_no_logits_of_a_whole_batch(tmp_path: Path) -> None:
    _prepare_text(tmp_path / "data", [f"{number} {number * number} {number**3}" for number in range(100)])
    student, teacher = _text_model(tmp_path / "data"), _text_model(tmp_path / "data")
    guidance = guide_by_text(student, tmp_path / "data")
    _same_gradients(guidance, student.model, _made_unlike(teacher), next(guidance.tuning()))
    adaptive = _text_model(tmp_path / "data", embedding="adaptive", adaptive_cutoffs=[100])
    assert guide_by_text(adaptive, tmp_path / "data").project is None


def _prepare_pairs(path: Path) -> Tokenizer:
    for name in ("src", "tgt"):
        (path / name).write_text("".join(f"{name} {number * number} is it\n" for number in range(40)))
    files = (path / "src", path / "tgt")
    prepare_data(path / "data", train=files, valid=files, vocab_size=280)
    return open_sentence_pairs(path / "data").tokenizer


def _translator(tokenizer: Tokenizer) -> LoadedModel:
    sizes = {f"{side}_vocab_size": tokenizer.vocab_size for side in ("src", "tgt")}
    return _loaded(tokenizer, {}, **sizes, num_encoder_layers=1, num_decoder_layers=1)


def test_tuning_of_a_translator_needs_no_logits_of_a_whole_batch(tmp_path: Path) -> None:
    tokenizer = _prepare_pairs(tmp_path)
    student, teacher = _translator(tokenizer), _translator(tokenizer)
    guidance = guide_by_pairs(student, tmp_path / "data", TRANSLATION_SCORER)
    _same_gradients(guidance, student.model, _made_unlike(teacher), next(guidance.tuning()))


def test_batches_are_read_where_the_model_is(tmp_path: Path) -> None:
    # Tensors without numbers stand for those of an accelerator: an operation on one of each kind is refused alike.
    translator = _translator(_prepare_pairs(tmp_path))
    _prepare_text(tmp_path / "text", [f"{number} {number * number}" for number in range(100)])
    writer = _text_model(tmp_path / "text")
    for loaded, guidance in (
        (translator, guide_by_pairs(translator, tmp_path / "data", TRANSLATION_SCORER)),
        (writer, guide_by_text(writer, tmp_path / "text")),
    ):
        assert guidance.project is not None
        own, labels = guidance.project(loaded.model.to("meta"), next(guidance.tuning()))
        assert {own.hidden.device.type, labels.device.type} == {"meta"}
    classifier, guidance = _labels_guidance(_prepare_labelled(tmp_path / "labelled", 9), NAMES)
    log_probs, labels = guidance.predict(classifier.model.to("meta"), guidance.scan[0])
    assert {log_probs.device.type, labels.device.type} == {"meta"}


def _prepare_labelled(path: Path, count: int) -> Path:
    path.mkdir(exist_ok=True)
    for name, rows in (("train", count), ("valid", 5)):
        lines = [f"{NAMES[i % 3]}\tanimal {i} {i * i} is a {NAMES[i % 3]} and so on and on\n" for i in range(rows)]
        (path / f"{name}.tsv").write_text("".join(lines), encoding="utf-8")
    prepare_data(path / "data", labelled=path / "train.tsv", valid_labelled=path / "valid.tsv", vocab_size=300)
    return path / "data"


def _labels_guidance(data: Path, labels: list[str]) -> tuple[LoadedModel, Guidance]:
    tokenizer = open_labelled(data).tokenizer
    sizes = {"src_vocab_size": tokenizer.vocab_size, "num_encoder_layers": 1, "num_classes": 3}
    loaded = _loaded(tokenizer, {"labels": labels}, architecture="sequence-classifier", **sizes)
    return loaded, guide_by_labels(loaded, data)


def _texts(batch: LabelledBatch) -> list[tuple[int, ...]]:
    return [tuple(row) for row in batch.first_tokens.tolist()]


def test_no_example_is_both_scanned_and_tuned_on(tmp_path: Path) -> None:
    _, guidance = _labels_guidance(_prepare_labelled(tmp_path, 600), NAMES)
    scanned = {row for batch in guidance.scan for row in _texts(batch)}
    tuned = [row for batch in islice(guidance.tuning(), 3) for row in _texts(batch)]
    assert len(scanned) == 256
    assert len(tuned) > 300
    assert not scanned & set(tuned)
    # As in training: five tokens and the end mark.
    assert {len(row) for row in [*scanned, *tuned]} == {6}


def test_labels_are_places_among_the_labels_of_the_model(tmp_path: Path) -> None:
    data = _prepare_labelled(tmp_path, 90)
    loaded, guidance = _labels_guidance(data, NAMES[::-1])
    assert list(guidance.scan)
    for batch in guidance.scan:
        log_probs, labels = guidance.predict(loaded.model, batch)
        # The data has them in alphabetical order, as in NAMES.
        assert labels.tolist() == (2 - batch.labels).tolist()
        assert log_probs.exp().sum(dim=-1).tolist() == pytest.approx([1.0] * len(batch), rel=1e-5)


def test_a_label_that_the_model_does_not_know_is_refused(tmp_path: Path) -> None:
    data = _prepare_labelled(tmp_path, 3)
    with pytest.raises(DataError, match="expected labels that the model knows"):
        _labels_guidance(data, ["cat", "dog", "cow"])
