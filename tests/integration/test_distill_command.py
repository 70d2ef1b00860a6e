"""``lite-nlp distill``: what students learn from, what a stopped run keeps, and what is refused."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lite_nlp import distill_model, prepare_data
from lite_nlp.artifacts.models import load_model
from lite_nlp.core.errors import UsageError
from lite_nlp.core.locks import locked
from lite_nlp.decoding.translate import Translator
from lite_nlp.training.stepper import Stepper
from tests.integration.conftest import Done, LiteNlp, write_model

from .tiny_training import write_files

Distill = Callable[..., Done]

#: A student that is smaller than its teacher, and takes its few steps with the same number of threads.
STUDENT = ("--set", "model.ffn_dim=8", "--set", "training.max_steps=20", "--threads", "1")

TEXT_MODEL = """
name = "text"
[model]
architecture = "language-model"
family = "transformer"
embed_dim = 16
ffn_dim = 16
num_decoder_layers = 1
num_heads = 2
max_positions = 32
[training]
batch_tokens = 128
block_tokens = 16
max_steps = 6
warmup_steps = 2
"""
CLASSIFIER = """
name = "classes"
[model]
architecture = "sequence-classifier"
family = "transformer"
embed_dim = 16
ffn_dim = 16
num_encoder_layers = 1
num_heads = 2
num_classes = 2
max_positions = 32
[training]
batch_tokens = 64
max_steps = 6
warmup_steps = 2
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Data of three kinds with one tokenizer, pairs with another, and a teacher of random weights for each."""
    path = tmp_path_factory.mktemp("distill")
    write_files(path)
    (path / "text.toml").write_text(TEXT_MODEL)
    (path / "classes.toml").write_text(CLASSIFIER)
    train, valid = ((path / f"{name}.en", path / f"{name}.de") for name in ("train", "valid"))
    prepare_data(path / "other", train=train, valid=valid, vocab_size=270, src_lang="en", tgt_lang="de")
    prepare_data(path / "reverse", train=train, valid=valid, vocab_size=270, src_lang="de", tgt_lang="en")
    tokenizer = path / "data" / "tokenizer.json"
    prepare_data(path / "unjudged", train=train, valid_pairs=0, test_pairs=0, tokenizer=tokenizer)
    prepare_data(path / "text", text=train[0], valid_text=valid[0], tokenizer=tokenizer)
    lines = train[0].read_text().splitlines()
    labelled = "".join(f"{'odd' if place % 2 else 'even'}\t{line}\n" for place, line in enumerate(lines))
    (path / "labelled.tsv").write_text(labelled)
    prepare_data(
        path / "labelled", labelled=path / "labelled.tsv", valid_labelled=path / "labelled.tsv", tokenizer=tokenizer
    )
    shape = {"family": "transformer", "num_heads": 2, "max_positions": 64}
    languages = {"languages": {"src": "en", "tgt": "de"}}
    write_teacher(path / "teacher", tokenizer, metrics=languages, cross_num_heads=2, **shape)
    write_teacher(path / "second", tokenizer, metrics=languages, cross_num_heads=2, **shape, embed_dim=12)
    other = path / "other" / "tokenizer.json"
    write_teacher(path / "stranger", other, metrics=languages, cross_num_heads=2, **shape)
    write_teacher(path / "text-teacher", tokenizer, architecture="language-model", **shape)
    write_teacher(
        path / "class-teacher", tokenizer, architecture="sequence-classifier", num_classes=2, **shape,
        metrics={"labels": ["odd", "even"]},
    )  # fmt: skip
    return path


def write_teacher(path: Path, tokenizer: Path, *, metrics: dict[str, Any] | None = None, **model: Any) -> None:
    write_model(path, [], tokenizer=tokenizer.read_bytes(), metrics=metrics, **model)


@pytest.fixture
def distill(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Distill:
    """Run ``lite-nlp distill TEACHER tiny.toml --data data --out TMP/run`` with more words."""
    monkeypatch.chdir(files)

    def run(
        *words: str | Path, teacher: str = "teacher", config: str = "tiny.toml", data: str = "data", out: str = "run"
    ) -> Done:
        student = STUDENT if config == "tiny.toml" else ("--threads", "1")
        return lite_nlp("distill", teacher, config, "--data", data, "--out", tmp_path / out, *student, *words)

    return run


def metrics_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "metrics.json").read_text())
    return content


def weights_of(path: Path) -> bytes:
    return (path / "model.safetensors").read_bytes()


def test_words_and_sequences_are_the_default_for_pairs(
    distill: Distill, lite_nlp: LiteNlp, files: Path, tmp_path: Path
) -> None:
    done = distill()
    assert done.code == 0, done.err
    assert "distillation from teacher, level both" in done.message
    assert "teacher translates, beam 5: 100" in done.message
    assert ": 20 steps, " in done.out
    found = metrics_of(tmp_path / "run")["distillation"]
    assert (found["teacher"], found["level"], found["beam"], found["n_best"]) == ("teacher", "both", 5, 1)
    assert (found["temperature"], found["label_weight"], found["sources"]) == (1.0, 0.5, 100)
    saved = load_model(tmp_path / "run")
    assert saved.config.model.model_dump()["ffn_dim"] == 8
    assert lite_nlp.json("evaluate", tmp_path / "run", "--data", files / "data", "--split", "valid")["sentences"] == 9
    assert lite_nlp("translate", tmp_path / "run", "--text", "one two").code == 0
    report = lite_nlp("report", tmp_path / "run", "--html", tmp_path / "run.html")
    assert report.code == 0
    assert "teacher, level both" in (tmp_path / "run.html").read_text()


def test_levels_and_options_change_the_student(distill: Distill, tmp_path: Path) -> None:
    shared = ("--hypotheses", tmp_path / "hypotheses")
    ways: dict[str, tuple[str | Path, ...]] = {
        "word": ("--level", "word"),
        "warm": ("--level", "word", "--temperature", "3", "--label-weight", "0"),
        "sequence": ("--level", "sequence", *shared),
        "n-best": ("--level", "sequence", "--n-best", "4", *shared),
        "interpolation": ("--level", "sequence", "--interpolation", *shared),
        "reference": ("--level", "sequence", "--reference-weight", "0.5", *shared),
        "both": shared,
    }
    students = set()
    for name, words in ways.items():
        done = distill(*words, out=name)
        assert done.code == 0, done.err
        # The teacher translates once for all of them.
        assert ("teacher translates" in done.message) == (name == "sequence")
        students.add(weights_of(tmp_path / name))
    # What a teacher of random weights says is as far from the reference as anything: its best is the nearest too.
    assert len(students) == len(ways) - 1
    assert not (tmp_path / "both" / "hypotheses").exists()
    facts = metrics_of(tmp_path / "n-best")["distillation"]
    assert facts["sources"] == 100 < facts["targets"] <= 400


def test_a_student_with_another_vocabulary_learns_from_sequences(distill: Distill, tmp_path: Path) -> None:
    done = distill("--hypotheses", tmp_path / "hypotheses", out="first")
    assert done.code == 0, done.err
    done = distill("--hypotheses", tmp_path / "hypotheses", "--json", data="other")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"out": str(tmp_path / "run"), **metrics_of(tmp_path / "run")}
    assert "distillation from teacher, level sequence" in done.message
    assert "at word level: expected a teacher with the vocabulary of other, found teacher with another" in done.message
    # The same translations, tokenized anew.
    assert "the teacher's translations are there already" in done.message
    assert load_model(tmp_path / "run").tokenizer.vocab_size == 270
    done = distill("--level", "word", data="other", out="no")
    assert done.code == 1
    assert "--level word: expected a teacher with the vocabulary of other" in done.message
    assert "prepare the data with the teacher's tokenizer (data prepare --tokenizer)" in done.message
    done = distill("--temperature", "2", data="other", out="no")
    assert done.code == 2
    chosen = "found sequence, the default here: at word level: expected a teacher with the vocabulary of other"
    assert f"--temperature: expected with --level word or both, {chosen}" in done.message


@pytest.fixture
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite_nlp.tasks.translation.teacher_outputs._BATCH_TOKENS", 64)


def test_several_teachers_translate_together(distill: Distill, tmp_path: Path) -> None:
    best, messages = {}, {}
    for name, words in (
        ("one", ("--level", "sequence")),
        ("two", ("--ensemble", "second")),
        # A model with itself is that model.
        ("same", ("--ensemble", "teacher")),
    ):
        done = distill("--hypotheses", tmp_path / name, *words, out=f"run-{name}")
        assert done.code == 0, done.err
        lines = (tmp_path / name / "hypotheses.jsonl").read_text().splitlines()
        best[name] = [json.loads(line)["texts"][:1] for line in lines]
        messages[name] = done.message
    assert "distillation from teacher + second, level sequence" in messages["two"]
    assert "teacher + second translates, beam 5: 100" in messages["two"]
    assert metrics_of(tmp_path / "run-two")["distillation"]["teacher"] == "teacher + second"
    assert best["same"] == best["one"]
    assert best["two"] != best["one"]
    # The translations of one ensemble are not taken for those of another.
    done = distill("--hypotheses", tmp_path / "two", "--level", "sequence", out="run-one-again")
    assert done.code == 1
    assert "expected translations by this teacher" in done.message


@pytest.mark.usefixtures("short_batches")
@pytest.mark.parametrize("how", ["signal", "kill"])
def test_a_search_that_is_stopped_goes_on_where_it_was(
    distill: Distill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, how: str
) -> None:
    asked: list[str] = []
    find = Translator.find_alternatives

    def count(self: Translator, lines: Any) -> Any:
        asked.extend(lines)
        return find(self, lines)

    def stop(self: Translator, lines: Any) -> Any:
        if len(asked) > 30:
            if how == "kill":
                raise SystemExit(137)
            os.kill(os.getpid(), signal.SIGTERM)
        return count(self, lines)

    monkeypatch.setattr(Translator, "find_alternatives", count)
    assert distill("--n-best", "3", out="whole").code == 0
    everything, asked[:] = sorted(asked), []
    monkeypatch.setattr(Translator, "find_alternatives", stop)
    done = distill("--n-best", "3")
    assert os.listdir(tmp_path / "run") == ["hypotheses"]
    partial = tmp_path / "run" / "hypotheses" / "hypotheses.partial.jsonl"
    if how == "signal":
        assert done.code == 1
        kept = f"stopped by SIGTERM after the teacher had translated {len(asked)} of 100 sources, which are kept"
        assert kept in done.message
        assert "the same command continues from there" in done.message
    else:
        with partial.open("a") as file:
            file.write('{"row": 99, "texts": ["ei')
    monkeypatch.setattr(Translator, "find_alternatives", count)
    done = distill("--n-best", "3")
    assert done.code == 0, done.err
    assert "of 100 sources are translated already" in done.message
    # No source was translated twice, and none left out.
    assert sorted(asked) == everything
    lines = [(tmp_path / run / "hypotheses" / "hypotheses.jsonl").read_bytes() for run in ("whole", "run")]
    assert lines[0] == lines[1]
    assert not partial.exists()
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


def test_a_signal_with_the_last_batch_ends_the_command_too(
    distill: Distill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = Translator.find_alternatives

    def stop(self: Translator, lines: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)
        return find(self, lines)

    monkeypatch.setattr(Translator, "find_alternatives", stop)
    done = distill()
    assert done.code == 1
    assert "stopped by SIGINT after the teacher had translated 100 of 100 sources, which are kept" in done.message
    assert os.listdir(tmp_path / "run") == ["hypotheses"]
    done = distill()
    assert done.code == 0, done.err
    assert "the teacher's translations are there already" in done.message


@pytest.mark.usefixtures("short_batches")
def test_the_time_counts_for_the_teacher_too(distill: Distill, tmp_path: Path) -> None:
    done = distill("--max-minutes", "0.00001")
    assert done.code == 1
    assert "--max-minutes: the time was up after the teacher had translated" in done.message
    assert os.listdir(tmp_path / "run") == ["hypotheses"]
    done = distill("--max-minutes", "0.00001", "--level", "word", out="word")
    assert done.code == 0, done.err
    assert metrics_of(tmp_path / "word")["ended_by"] == "max_minutes"


def test_a_run_that_is_stopped_and_resumed_is_bit_for_bit_the_run_undisturbed(
    distill: Distill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    words = ("--n-best", "4", "--temperature", "2", "--reference-weight", "0.2")
    shared = ("--hypotheses", tmp_path / "hypotheses")
    assert distill(*words, *shared, out="whole").code == 0
    take = Stepper.take

    def stop(self: Any, step: int, *arguments: Any, **named: Any) -> Any:
        if step == 13:
            os.kill(os.getpid(), signal.SIGTERM)
        return take(self, step, *arguments, **named)

    monkeypatch.setattr(Stepper, "take", stop)
    done = distill(*words, *shared)
    assert done.code == 1
    assert "stopped by SIGTERM after step" in done.message
    monkeypatch.setattr(Stepper, "take", take)
    for changed, said in (
        (("--n-best", "3"), "data.distillation.n_best was 4, is 3"),
        (("--temperature", "1"), "data.distillation.temperature was 2.0, is 1.0"),
        (("--reference-weight", "0"), "data.distillation.reference_weight was 0.2, is 0.0"),
    ):
        done = distill(*words, *shared, *changed, "--resume")
        assert done.code == 1
        assert said in done.message
    done = distill(*words, *shared)
    assert done.code == 1
    assert "output exists already" in done.message
    done = distill(*words, *shared, "--resume")
    assert done.code == 0, done.err
    assert "resuming after step" in done.message
    assert weights_of(tmp_path / "run") == weights_of(tmp_path / "whole")


def test_another_teacher_or_search_needs_other_hypotheses_or_force(
    distill: Distill, files: Path, tmp_path: Path
) -> None:
    assert distill().code == 0
    shared = ("--hypotheses", tmp_path / "run" / "hypotheses")
    done = distill("--beam", "3", *shared, out="other")
    assert done.code == 1
    assert "with these options (beam 3), found others (beam 5); --force makes them anew" in done.message
    done = distill("--beam", "3", *shared, "--resume", out="other")
    assert done.code == 1
    assert "found others (beam 5); resume with the run's own options, or name another directory" in done.message
    done = distill("--beam", "3", "--force")
    assert done.code == 0, done.err
    assert "beam 3: 100" in done.message
    # The same ones are not made again, though the run is.
    done = distill("--beam", "3", "--force")
    assert done.code == 0, done.err
    assert "the teacher's translations are there already" in done.message


def test_damaged_translations_are_made_anew_with_force(distill: Distill, tmp_path: Path) -> None:
    words = ("--level", "sequence")
    assert distill(*words).code == 0
    lines = tmp_path / "run" / "hypotheses" / "hypotheses.jsonl"
    whole = lines.read_bytes()
    lines.write_bytes(whole[:-9])
    done = distill(*words, "--resume")
    assert done.code == 1
    assert "hypotheses.jsonl: damaged: expected SHA-256" in done.message
    assert "are there already" not in done.message
    done = distill(*words, "--force")
    assert done.code == 0, done.err
    assert "teacher translates" in done.message
    assert lines.read_bytes() == whole


def test_a_run_that_cannot_be_resumed_is_told_before_the_search(
    distill: Distill, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert distill("--level", "sequence").code == 0
    shutil.rmtree(tmp_path / "run" / "hypotheses")
    monkeypatch.setattr(Translator, "find_alternatives", lambda *_: pytest.fail("the teacher translates"))
    for words, said in (
        ((), "data.distillation.level was 'sequence', is 'both'"),
        (("--level", "sequence", "--beam", "3"), "data.distillation.beam was 5, is 3"),
        (("--level", "sequence", "--set", "model.ffn_dim=12"), "config.model.ffn_dim was 8, is 12"),
    ):
        done = distill(*words, "--resume")
        assert done.code == 1
        assert said in done.message
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    done = distill("--level", "sequence", "--resume")
    assert done.code == 1
    assert "expected checkpoints to resume from, found a model and no checkpoint" in done.message
    assert not (tmp_path / "run" / "hypotheses").exists()


@pytest.mark.parametrize("place", ["run", "run/teacher", "other/../run/hypotheses2", "link"])
def test_hypotheses_among_the_files_of_the_run_are_refused_before_the_search(
    distill: Distill, tmp_path: Path, place: str
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run" / "teacher")
    done = distill("--hypotheses", tmp_path / place)
    assert done.code == 2
    assert f"--hypotheses: expected a directory outside --out {tmp_path / 'run'}, or hypotheses in it" in done.message
    assert os.listdir(tmp_path) == ["link"]


def test_hypotheses_may_be_named_where_they_are_by_default(distill: Distill, tmp_path: Path) -> None:
    done = distill("--hypotheses", tmp_path / "run" / "hypotheses")
    assert done.code == 0, done.err
    assert (tmp_path / "run" / "hypotheses" / "hypotheses.jsonl").exists()


def test_several_students_read_finished_translations_at_once(distill: Distill, tmp_path: Path) -> None:
    shared = tmp_path / "hypotheses"
    words = ("--level", "sequence", "--hypotheses", shared)
    assert distill(*words, out="one").code == 0
    with locked(shared, wait=False):
        done = distill(*words, out="two")
        assert done.code == 0, done.err
        assert "the teacher's translations are there already" in done.message
        other = distill(*words, "--beam", "3", "--force", out="three")
        assert other.code == 1
        assert "another process translates into this directory" in other.message


def test_sources_that_the_teacher_cannot_read_are_left_out(distill: Distill, files: Path, tmp_path: Path) -> None:
    tokenizer = files / "data" / "tokenizer.json"
    shape = {"family": "transformer", "num_heads": 2, "cross_num_heads": 2, "max_positions": 8}
    write_teacher(tmp_path / "short", tokenizer, **shape)
    done = distill(teacher=str(tmp_path / "short"))
    assert done.code == 0, done.err
    assert "level sequence alone; at word level: expected a teacher that reads as many tokens" in done.message
    left_out = "sources are left out: the teacher has no translation of them in one piece"
    assert f"{left_out}, and the student learns nothing of such long ones" in done.message
    metrics = metrics_of(tmp_path / "run")
    assert metrics["distillation"]["sources"] < 90
    assert left_out in metrics["warnings"][0]
    done = distill("--reference-weight", "0.1", teacher=str(tmp_path / "short"), out="with-references")
    assert "sources have their reference alone" in done.message
    assert metrics_of(tmp_path / "with-references")["distillation"]["sources"] == 100


@pytest.mark.parametrize(
    ("teacher", "config", "data"),
    [("text-teacher", "text.toml", "text"), ("class-teacher", "classes.toml", "labelled")],
)
def test_other_tasks_learn_from_distributions(
    distill: Distill, lite_nlp: LiteNlp, tmp_path: Path, teacher: str, config: str, data: str
) -> None:
    done = distill(teacher=teacher, config=config, data=data)
    assert done.code == 0, done.err
    assert f"distillation from {teacher}, level word" in done.message
    assert metrics_of(tmp_path / "run")["distillation"]["level"] == "word"
    plain = lite_nlp("train", config, "--data", data, "--out", tmp_path / "plain", "--threads", "1")
    assert plain.code == 0
    assert weights_of(tmp_path / "run") != weights_of(tmp_path / "plain")
    assert lite_nlp("evaluate", tmp_path / "run", "--data", data, "--split", "valid").code == 0
    for words, said in (
        (("--level", "sequence"), "--level: expected word with model.architecture ="),
        (("--beam", "3"), "--beam: expected a student that learns from sentence pairs, found model.architecture ="),
        (("--ensemble", teacher), "--ensemble: expected a student that learns from sentence pairs, found model.arch"),
    ):
        done = distill(*words, teacher=teacher, config=config, data=data, out="no")
        assert done.code == 2
        assert said in done.message


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--level", "word", "--beam", "3"), 2, "--beam: expected with --level sequence or both, found word"),
        (("--level", "word", "--hypotheses", "x"), 2, "--hypotheses: expected with --level sequence or both"),
        (("--level", "word", "--runtime", "onnx"), 2, "--runtime: expected with --level sequence or both, found word"),
        (("--runtime", "phone"), 2, "'phone' is not one of 'torch', 'onnx'"),
        (("--level", "word", "--interpolation"), 2, "--interpolation: expected with --level sequence or both"),
        (("--level", "sequence", "--temperature", "2"), 2, "--temperature: expected with --level word or both"),
        (("--level", "sequence", "--label-weight", "0"), 2, "--label-weight: expected with --level word or both"),
        (("--level", "both", "--n-best", "6"), 2, "--n-best: expected 1 to 5, found 6"),
        (("--interpolation", "--n-best", "1"), 2, "--interpolation: expected --n-best of at least 2"),
        (("--label-weight", "1"), 2, "--label-weight: expected 0 to less than 1"),
        (("--reference-weight", "1"), 2, "--reference-weight: expected 0 to less than 1"),
        (("--resume", "--force"), 2, "--resume and --force: expected one of them, found both"),
        (("--ensemble", "second", "--level", "both"), 2, "--ensemble: expected --level sequence, at which several"),
        (("--ensemble", "stranger"), 1, "--ensemble stranger: expected the vocabulary of teacher, with which it is"),
        (("--ensemble", "nowhere"), 1, "nowhere: expected a model directory, a .lnlp file"),
        (("--level", "letters"), 2, "'letters' is not one of 'word', 'sequence', 'both'"),
        (("--max-macs", "10K"), 3, "over budget: tiny.toml"),
        (("--set", "model.width=3"), 1, "unknown key model.width"),
        (("--hypotheses", "data"), 1, "data: expected a new directory or one of a teacher's translations, found other"),
        (("--init-from", "teacher"), 1, "--init-from teacher: expected a model of the config"),
        (("--set", "training.validate_metric=rouge"), 1, "training.validate_metric: expected loss or bleu"),
    ],
)
def test_bad_options(distill: Distill, tmp_path: Path, words: tuple[str, ...], code: int, message: str) -> None:
    done = distill(*words)
    assert done.code == code
    assert message in done.message
    assert "Traceback" not in done.err
    assert done.out == ""
    # What is wrong is told before the teacher's long search.
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"teacher": "nowhere"}, "nowhere: expected a model directory, a .lnlp file, a bundle .zip or a shipped model"),
        ({"data": "unjudged"}, "unjudged: split: expected one of train, found 'valid'"),
        ({"data": "nowhere"}, "nowhere: expected a data directory with data.json, found none"),
        ({"config": "nowhere.toml"}, "nowhere.toml: expected a config file or the name of a preset"),
        ({"teacher": "text-teacher"}, "text-teacher: expected an encoder-decoder, found a language-model"),
        ({"teacher": "class-teacher"}, "class-teacher: expected an encoder-decoder, found a sequence-classifier"),
        ({"data": "text"}, "text: model.architecture = 'encoder-decoder' learns from sentence pairs"),
        ({"data": "reverse"}, "reverse: expected the languages of the teacher teacher, en to de, found de to en"),
        ({"config": "text.toml", "data": "text"}, "teacher: expected a language-model, found an encoder-decoder"),
    ],
)
def test_a_teacher_or_data_that_does_not_fit(
    distill: Distill, tmp_path: Path, changes: dict[str, str], message: str
) -> None:
    done = distill(**changes)
    assert done.code == 1
    assert message in done.message
    assert "Traceback" not in done.err
    assert os.listdir(tmp_path) == []


def test_the_library_takes_a_loaded_teacher_and_checks_the_level(files: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected one of word, sequence, both, found 'words'; did you mean 'word'"):
        distill_model("teacher", files / "tiny.toml", data="data", out=tmp_path / "run", level="words")  # type: ignore[arg-type]
    loaded = load_model(files / "teacher")
    trained = distill_model(
        loaded,
        files / "tiny.toml",
        data=files / "data",
        out=tmp_path / "run",
        overrides=["training.max_steps=2"],
        interpolation=True,
        beam=2,
        threads=1,
    )
    assert trained is not None
    assert trained.metrics["distillation"]["n_best"] == 2
