"""``lite-nlp distill``: what students learn from, and what is refused."""

import json
import os
from pathlib import Path

import pytest

from lite_nlp import distill_model
from lite_nlp.artifacts.models import load_model
from lite_nlp.core.errors import UsageError
from tests.integration.conftest import LiteNlp

from .tiny_distillation import Distill, metrics_of, weights_of, write_teacher


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
