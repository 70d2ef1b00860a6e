"""The training text of the shipped models, and the inputs that are kept out of it."""

import gzip
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The two scripts, as they import each other."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import first_inputs
    import shipped_pairs

    yield first_inputs, shipped_pairs
    for name in ("first_inputs", "shipped_pairs"):
        sys.modules.pop(name, None)


@pytest.fixture
def corpora(tmp_path: Path) -> Path:
    """Small corpora; one line is an input that is kept out, but for case and marks."""
    lines = {
        "tatoeba": [("What is your name?", "Wie heißt du?"), *((f"It is {n}.", f"Es ist {n}.") for n in range(40))],
        "multi30k": [("A man sings.", "Ein Mann singt.")],
    }
    for name, pairs in lines.items():
        (tmp_path / name).mkdir()
        for column, language in enumerate(("en", "de")):
            text = "".join(f"{pair[column]}\n" for pair in pairs)
            (tmp_path / name / f"train.{language}.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path


@pytest.mark.parametrize("direction", [("en", "de"), ("de", "en")])
def test_there_are_sixty_inputs_with_answers(modules: Any, direction: tuple[str, str]) -> None:
    first_inputs, _ = modules
    inputs = first_inputs.read_inputs(*direction)
    assert len({first_inputs.fold(text) for text, _ in inputs}) == len(inputs) == 60
    assert all(
        answers and all(first_inputs.fold(answer) == answer.casefold() for answer in answers) for _, answers in inputs
    )


def test_case_and_punctuation_do_not_count(modules: Any) -> None:
    first_inputs, _ = modules
    assert first_inputs.fold("Wie  heißt DU?") == first_inputs.fold("wie heisst du") == "wie heisst du"
    assert first_inputs.fold("I'm 25.") == "im 25"


def test_sources_stand_there_as_people_type_them(modules: Any) -> None:
    _, shipped_pairs = modules
    forms = {shipped_pairs.other_form(("I know.", "Ich weiß."), random.Random(seed), keep=0.5) for seed in range(300)}
    assert forms == {
        None,
        ("i know.", "Ich weiß."),
        ("I know", "Ich weiß"),
        ("i know", "Ich weiß"),
        ("I KNOW.", "Ich weiß."),
    }
    assert shipped_pairs.without_end("?!") == "?!"


def test_frames_have_the_same_slots_on_both_sides(modules: Any) -> None:
    _, shipped_pairs = modules
    frames = shipped_pairs.read_pairs(shipped_pairs.PHRASES / "frames.en-de.tsv")
    slots = [[sorted(slot for _, slot, _, _ in Formatter().parse(text) if slot) for text in pair] for pair in frames]
    assert all(english == german and english for english, german in slots)
    filled = shipped_pairs.frame_pairs(random.Random(1))
    assert len(filled) == len(frames) * shipped_pairs.FRAME_PAIRS
    assert not any("{" in text or "}" in text for pair in filled for text in pair)


def test_a_sentence_begins_with_a_capital(modules: Any) -> None:
    _, shipped_pairs = modules
    assert shipped_pairs.sentence_case("my aunt is tired.") == "My aunt is tired."
    assert shipped_pairs.sentence_case("the red hat") == "the red hat"


@pytest.mark.parametrize(("src", "tgt"), [("en", "de"), ("de", "en")])
def test_the_text_is_the_same_each_time_and_without_the_inputs(
    modules: Any, corpora: Path, tmp_path: Path, src: str, tgt: str
) -> None:
    first_inputs, _ = modules
    script = [sys.executable, str(BENCHMARKS / "shipped_pairs.py"), "--corpora", str(corpora)]
    outputs = [tmp_path / "one", tmp_path / "two"]
    for out in outputs:
        subprocess.run([*script, "--src", src, "--tgt", tgt, "--out", str(out)], check=True, capture_output=True)
    one, two = ([(out / f"train.{code}.gz").read_bytes() for code in (src, tgt)] for out in outputs)
    assert one == two
    sources, targets = (gzip.decompress(content).decode().splitlines() for content in one)
    assert len(sources) == len(targets) > 1000
    held_out = {first_inputs.fold(text) for text, _ in first_inputs.read_inputs(src, tgt)}
    assert not held_out & {first_inputs.fold(source) for source in sources}
    assert ("It is 7." if src == "en" else "Es ist 7.") in sources


def test_two_languages_are_wanted(corpora: Path) -> None:
    script = [sys.executable, str(BENCHMARKS / "shipped_pairs.py"), "--corpora", str(corpora)]
    done = subprocess.run([*script, "--src", "en", "--tgt", "en", "--out", "x"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "--tgt: expected another language than en" in done.stderr
