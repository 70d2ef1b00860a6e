"""``lite-nlp distill`` stopped, killed and resumed: what is kept of the teacher's translations, and of a run."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.core.locks import locked
from lite_nlp.decoding.translate import Translator
from lite_nlp.training.stepper import Stepper

from .tiny_distillation import Distill, metrics_of, weights_of


@pytest.fixture
def short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lite_nlp.tasks.translation.teacher_outputs._BATCH_TOKENS", 64)


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
