"""What each task offers to distillation: teachers that are refused, and losses with one in them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lite_nlp import prepare_data
from lite_nlp.artifacts.models import LoadedModel
from lite_nlp.config.preset import Config, TrainingConfig, parse_model
from lite_nlp.core.errors import DataError, ModelError
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.translate import Alternative
from lite_nlp.models.build import build_model
from lite_nlp.tasks.distillation import Lesson, SequenceTargets, TeacherModel
from lite_nlp.tasks.registry import task_of_data
from lite_nlp.tasks.room import TrainingData
from lite_nlp.training.interruption import TimeLimit
from lite_nlp.training.objective import Objective
from lite_nlp.training.soft_targets import SoftTargets

CPU = torch.device("cpu")
LINES = ["the cat sleeps", "a dog barks", "the fox and the cat", "a fox", "the dog sleeps and barks"] * 4
SHAPE = {"family": "transformer", "embed_dim": 16, "ffn_dim": 16, "num_heads": 2, "max_positions": 24, "dropout": 0.0}
LAYERS: dict[str, dict[str, Any]] = {
    "encoder-decoder": {"num_encoder_layers": 1, "num_decoder_layers": 1, "cross_num_heads": 2},
    "language-model": {"num_decoder_layers": 1},
    "sequence-classifier": {"num_encoder_layers": 1, "num_classes": 3},
}
ARCHITECTURES = list(LAYERS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrainingData]:
    """A directory of each kind, opened; all with one tokenizer."""
    path = tmp_path_factory.mktemp("data")
    for name, lines in (("train", LINES), ("valid", LINES[:3])):
        (path / f"{name}.en").write_text("".join(f"{line}\n" for line in lines))
        (path / f"{name}.de").write_text("".join(f"{line[::-1]}\n" for line in lines))
        labelled = [f"{('cat', 'dog', 'fox')[place % 3]}\t{line}\n" for place, line in enumerate(lines)]
        (path / f"{name}.tsv").write_text("".join(labelled))
    train, valid = ((path / f"{name}.en", path / f"{name}.de") for name in ("train", "valid"))
    prepare_data(path / "pairs", train=train, valid=valid, vocab_size=280, src_lang="en", tgt_lang="de")
    tokenizer = path / "pairs" / "tokenizer.json"
    prepare_data(path / "text", text=train[0], valid_text=valid[0], tokenizer=tokenizer)
    prepare_data(path / "labelled", labelled=path / "train.tsv", valid_labelled=path / "valid.tsv", tokenizer=tokenizer)
    opened = (
        task_of_data(path / name).room().open_training_data(path / name) for name in ("pairs", "text", "labelled")
    )
    return dict(zip(ARCHITECTURES, opened, strict=True))


def make_config(architecture: str, tokenizer: Tokenizer, **changes: Any) -> Config:
    sizes = {"src_vocab_size": tokenizer.vocab_size, "tgt_vocab_size": tokenizer.vocab_size}
    taken = {"language-model": ("tgt_vocab_size",), "sequence-classifier": ("src_vocab_size",)}
    sizes = {key: value for key, value in sizes.items() if key in taken.get(architecture, sizes)}
    model = {"architecture": architecture, **SHAPE, **LAYERS[architecture], **sizes, **changes.pop("model", {})}
    training = {"block_tokens": 8, "max_tokens": 20, "batch_tokens": 200, "label_smoothing": 0.0, **changes}
    return Config(name="tiny", model=parse_model(model), training=TrainingConfig.model_validate(training))


def load(config: Config, tokenizer: Tokenizer, metrics: dict[str, Any] | None = None, *, seed: int = 1) -> LoadedModel:
    torch.manual_seed(seed)
    facts = {"languages": {"src": "en", "tgt": "de"}, "labels": ["cat", "dog", "fox"]}
    return LoadedModel(build_model(config.model).eval(), config, tokenizer, "big", {**facts, **(metrics or {})})


def lesson(teacher: LoadedModel, path: Path, **soft: float) -> Lesson:
    return Lesson(
        teachers=(TeacherModel(model=teacher, source=teacher, sha256="ab"),), runtime="torch",
        soft=SoftTargets(**soft), targets=None, hypotheses=path, resume=False, force=False,
        first=True, threads=1, limit=TimeLimit(None), progress=SilentProgress(), say=pytest.fail, warn=pytest.fail,
    )  # fmt: skip


def sums(objective: Objective[Any], model: nn.Module) -> list[float]:
    batches = objective.batches("train", batches_per_step=1, say=pytest.fail)
    ((work, *_), *_) = batches.steps(0)
    model.zero_grad()
    found: list[float] = objective.batch_sums(model, batches.load(work.rows), CPU).tolist()
    return found


def gradient(model: nn.Module) -> float:
    return float(sum(parameter.grad.norm() ** 2 for parameter in model.parameters() if parameter.grad is not None))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_student_like_its_teacher_learns_nothing_from_it(
    data: dict[str, TrainingData], tmp_path: Path, architecture: str
) -> None:
    opened = data[architecture]
    config = make_config(architecture, opened.tokenizer)
    teacher, student = (load(config, opened.tokenizer) for _ in range(2))
    before = [tensor.clone() for tensor in teacher.model.state_dict().values()]
    assert opened.teaching is not None
    alone = opened.teaching.objective(lesson(teacher, tmp_path, label_weight=0.0))(config)
    half = opened.teaching.objective(lesson(teacher, tmp_path, label_weight=0.5))(config)
    plain = opened.objective(config)
    student.model.train()
    expected = sums(plain, student.model)
    of_labels = gradient(student.model)
    imitated = sums(alone, student.model)
    assert gradient(student.model) < 1e-8 * of_labels
    mixed = sums(half, student.model)
    assert gradient(student.model) == pytest.approx(of_labels / 4, rel=1e-3)
    # The likelihood, the tokens and the number of targets are those of the labels.
    assert imitated[1:] == pytest.approx(expected[1:], rel=1e-5)
    assert mixed[0] == pytest.approx((expected[0] + imitated[0]) / 2, rel=1e-5)
    # A model is validated without its teacher.
    student.model.eval()
    with torch.inference_mode():
        assert sums(alone, student.model) == sums(plain, student.model)
    assert all(map(torch.equal, before, teacher.model.state_dict().values()))
    assert all(parameter.grad is None for parameter in teacher.model.parameters())


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_teacher_with_another_tokenizer_has_no_words_to_say(data: dict[str, TrainingData], architecture: str) -> None:
    opened = data[architecture]
    other = Tokenizer.train(LINES, vocab_size=275)
    teacher = load(make_config(architecture, other), other)
    assert opened.teaching is not None
    reason = opened.teaching.refuses_words(teacher, make_config(architecture, opened.tokenizer))
    assert reason is not None
    assert f"found big with another ({other.vocab_size} types, the data {opened.tokenizer.vocab_size})" in reason
    same = load(make_config(architecture, opened.tokenizer), opened.tokenizer)
    assert opened.teaching.refuses_words(same, make_config(architecture, opened.tokenizer)) is None


@pytest.mark.parametrize(
    ("architecture", "message"),
    [
        ("encoder-decoder", "reads as many tokens as the student .*: set training.max_tokens=5"),
        ("language-model", "reads blocks of training.block_tokens = 8, found one of 6 tokens"),
        ("sequence-classifier", "reads as many tokens as the student .*: set training.max_tokens=5"),
    ],
)
def test_a_teacher_that_reads_too_little(data: dict[str, TrainingData], architecture: str, message: str) -> None:
    opened = data[architecture]
    short = make_config(architecture, opened.tokenizer, model={"max_positions": 6}, block_tokens=6)
    student = make_config(architecture, opened.tokenizer)
    assert opened.teaching is not None
    assert_matches(message, opened.teaching.refuses_words(load(short, opened.tokenizer), student))
    fitting = make_config(architecture, opened.tokenizer, max_tokens=5, block_tokens=6)
    assert opened.teaching.refuses_words(load(short, opened.tokenizer), fitting) is None


def test_outputs_may_be_longer_than_the_data(data: dict[str, TrainingData]) -> None:
    opened = data["encoder-decoder"]
    assert opened.teaching is not None
    longest = max(map(len, opened.tokenizer.encode_batch([*LINES, *(line[::-1] for line in LINES)])))
    as_long, longer = ({"max_positions": longest + more} for more in (1, 9))
    teacher = load(make_config("encoder-decoder", opened.tokenizer, model=as_long), opened.tokenizer)
    student = make_config("encoder-decoder", opened.tokenizer, model=longer, max_tokens=longest + 5)
    assert opened.teaching.refuses_words(teacher, student) is None
    reason = opened.teaching.refuses_words(teacher, student, outputs=True)
    assert_matches(f"found one of {longest}: set training.max_tokens={longest}", reason)


def assert_matches(pattern: str, text: str | None) -> None:
    with pytest.raises(ValueError, match=pattern):
        raise ValueError(text)


@pytest.mark.parametrize("adaptive", ["teacher", "student"])
def test_an_adaptive_softmax_has_no_logits_to_compare(data: dict[str, TrainingData], adaptive: str) -> None:
    opened = data["language-model"]
    bands = {"embedding": "adaptive", "adaptive_cutoffs": (20, 50), "adaptive_factor": 2}
    plain = make_config("language-model", opened.tokenizer)
    banded = make_config("language-model", opened.tokenizer, model=bands)
    teacher, student = (banded, plain) if adaptive == "teacher" else (plain, banded)
    assert opened.teaching is not None
    reason = opened.teaching.refuses_words(load(teacher, opened.tokenizer), student)
    assert_matches(f"expected a {adaptive} that has the logits of all types, found one with an adaptive", reason)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("other", ARCHITECTURES)
def test_a_teacher_of_another_task_is_refused(data: dict[str, TrainingData], architecture: str, other: str) -> None:
    teaching = data[architecture].teaching
    assert teaching is not None
    teacher = load(make_config(other, data[other].tokenizer), data[other].tokenizer)
    check: Callable[[LoadedModel], None] = teaching.check_teacher
    if architecture == other:
        check(teacher)
        return
    with pytest.raises(ModelError, match="big: expected a"):
        check(teacher)


@pytest.mark.parametrize(
    ("languages", "refused"),
    [
        ({"src": "de", "tgt": "en"}, True),
        ({"src": "en", "tgt": "fr"}, True),
        ({"src": "en-US", "tgt": "deu"}, False),
        ({"src": "src", "tgt": "tgt"}, False),
        (None, False),
        ([], False),
    ],
)
def test_a_teacher_of_other_languages_is_refused(
    data: dict[str, TrainingData], languages: object, refused: bool
) -> None:
    opened = data["encoder-decoder"]
    teacher = load(make_config("encoder-decoder", opened.tokenizer), opened.tokenizer, {"languages": languages})
    assert opened.teaching is not None
    if not refused:
        opened.teaching.check_teacher(teacher)
        return
    with pytest.raises(DataError, match=r"expected the languages of the teacher big, .*, found en to de"):
        opened.teaching.check_teacher(teacher)


def test_a_teacher_of_classes_knows_all_labels_in_any_order(data: dict[str, TrainingData], tmp_path: Path) -> None:
    opened = data["sequence-classifier"]
    config = make_config("sequence-classifier", opened.tokenizer)
    assert opened.teaching is not None
    with pytest.raises(DataError, match="expected labels that the model knows"):
        opened.teaching.check_teacher(load(config, opened.tokenizer, {"labels": ["cat", "dog", "cow"]}))
    four = make_config("sequence-classifier", opened.tokenizer, model={"num_classes": 4})
    teacher = load(four, opened.tokenizer, {"labels": ["fox", "cow", "dog", "cat"]})
    student = load(config, opened.tokenizer)
    # The student's classes are the teacher's, but for the cow, in the order of the data.
    state = teacher.model.state_dict()
    places = torch.tensor([3, 2, 0])
    state |= {name: state[name][places] for name in ("output.weight", "output.bias")}
    student.model.load_state_dict(state)
    student.model.train()
    sums(opened.teaching.objective(lesson(teacher, tmp_path, label_weight=0.0))(config), student.model)
    assert gradient(student.model) < 1e-8


@pytest.mark.parametrize(("left_out", "weight", "told"), [(2, 0.0, "said"), (3, 0.0, "warned"), (3, 0.5, "said")])
def test_many_sources_without_a_translation_are_worth_a_warning(
    data: dict[str, TrainingData],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    left_out: int,
    weight: float,
    told: str,
) -> None:
    opened = data["encoder-decoder"]
    assert opened.teaching is not None
    found = [[Alternative("tac", -1.0)]] * (len(LINES) - left_out) + [[]] * left_out
    monkeypatch.setattr("lite_nlp.tasks.translation.teaching.make_hypotheses", lambda *_: found)
    messages: dict[str, list[str]] = {"said": [], "warned": []}
    plain = lesson(load(make_config("encoder-decoder", opened.tokenizer), opened.tokenizer), tmp_path)
    targets = SequenceTargets(reference_weight=weight)
    opened.teaching.objective(
        replace(plain, soft=None, targets=targets, say=messages["said"].append, warn=messages["warned"].append)
    )
    assert {kind for kind, texts in messages.items() if texts} == {told}
    assert messages[told][0].startswith(f"{left_out} of 20 sources")


def test_the_run_says_what_it_learned_from(data: dict[str, TrainingData], tmp_path: Path) -> None:
    opened = data["language-model"]
    config = make_config("language-model", opened.tokenizer)
    assert opened.teaching is not None
    taught = opened.teaching.objective(lesson(load(config, opened.tokenizer), tmp_path, temperature=2.0))(config)
    identity = {"teacher_sha256": "ab", "level": "word", "temperature": 2.0, "label_weight": 0.5}
    assert taught.facts()["distillation"] == {**identity, "teacher": "big"}
    assert taught.fingerprint()["distillation"] == identity
    assert taught.fingerprint().items() >= opened.objective(config).fingerprint().items()
    assert np.isfinite(sums(taught, load(config, opened.tokenizer, seed=2).model.train())).all()
