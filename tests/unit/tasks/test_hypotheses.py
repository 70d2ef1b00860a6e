"""The directory of a teacher's translations: what of it survives, and what is refused."""

import json
from pathlib import Path

import pytest

from lite_nlp.core.errors import DataError, LiteNlpError, OutputError
from lite_nlp.decoding.translate import Alternative
from lite_nlp.tasks.translation.hypotheses import HypothesisStore, SourceHypotheses, check_hypotheses

IDENTITY = {"teacher_sha256": "ab", "beam": 5}
SOURCES = [
    SourceHypotheses(1, [Alternative("zwei\u2028…", -0.5), Alternative("drei", -1.25)]),
    SourceHypotheses(0, []),
    SourceHypotheses(2, [Alternative("vier", -2.0)]),
]


def store(path: Path, **changes: object) -> HypothesisStore:
    return HypothesisStore(path, {**IDENTITY, **changes}, rows=len(SOURCES))


def begin(path: Path, count: int) -> None:
    """Translate ``count`` sources and stop."""
    with store(path).open(force=False), store(path).appending() as appender:
        appender.add(SOURCES[:count])


def complete(path: Path) -> None:
    with store(path).open(force=False):
        with store(path).appending() as appender:
            appender.add(SOURCES)
        store(path).finish(SOURCES)


def test_what_was_finished_is_read_by_row(tmp_path: Path) -> None:
    assert not store(tmp_path / "made").complete
    complete(tmp_path / "made")
    assert store(tmp_path / "made").complete
    with store(tmp_path / "made").open(force=False):
        found = store(tmp_path / "made").read()
    assert found == [source.alternatives for source in sorted(SOURCES)]
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["hypotheses.json", "hypotheses.jsonl"]


@pytest.mark.parametrize("cut", [1, 20])
def test_a_line_that_is_cut_off_is_done_again(tmp_path: Path, cut: int) -> None:
    begin(tmp_path, 2)
    partial = tmp_path / "hypotheses.partial.jsonl"
    whole = partial.read_bytes()
    partial.write_bytes(whole[:-cut])
    assert store(tmp_path).read_partial() == SOURCES[:1]
    assert whole.startswith(partial.read_bytes())
    with store(tmp_path).appending() as appender:
        appender.add(SOURCES[1:])
    assert store(tmp_path).read_partial() == SOURCES


def test_nothing_is_left_of_a_search_that_never_began(tmp_path: Path) -> None:
    with store(tmp_path / "new" / "made").open(force=False):
        assert store(tmp_path / "new" / "made").read_partial() == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("finished", [True, False])
def test_translations_of_another_teacher_or_search_are_kept_unless_forced(tmp_path: Path, finished: bool) -> None:
    complete(tmp_path) if finished else begin(tmp_path, 1)
    other = store(tmp_path, beam=4)
    told = r"with these options \(beam 4\), found others \(beam 5\); "
    for resume, advice in ((False, "--force makes them anew"), (True, "resume with the run's own options")):
        with pytest.raises(DataError, match=f"{told}{advice}, or name another directory by --hypotheses$"):
            other.open(force=False, resume=resume).__enter__()
    before = {path.name for path in tmp_path.iterdir()}
    assert before >= {"hypotheses.json"}
    with other.open(force=True):
        assert other.read_partial() == []
        assert list(tmp_path.iterdir()) == []


def test_one_process_at_a_time(tmp_path: Path) -> None:
    with store(tmp_path).open(force=False), pytest.raises(OutputError, match="another process translates into"):
        store(tmp_path).open(force=False).__enter__()


def test_another_process_waits_for_those_of_its_own_identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def look(_: float) -> None:
        nonlocal looks
        looks += 1
        steps = [lambda: complete(tmp_path), lambda: store(tmp_path, beam=4).open(force=True).__enter__()]
        if looks <= len(steps):
            steps[looks - 1]()
        else:
            with store(tmp_path, beam=4).appending() as appender:
                appender.add(SOURCES)
            store(tmp_path, beam=4).finish(SOURCES)

    monkeypatch.setattr("lite_nlp.tasks.translation.hypotheses.time.sleep", look)
    assert store(tmp_path, beam=4).wait() == [source.alternatives for source in sorted(SOURCES)]
    assert looks == 3


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("precious")
    for attempt in (lambda: check_hypotheses(tmp_path), store(tmp_path).open(force=True).__enter__):
        with pytest.raises(OutputError, match=r"found other files and no hypotheses\.json"):
            attempt()
    assert (tmp_path / "notes.txt").read_text() == "precious"


def test_altered_translations_are_refused(tmp_path: Path) -> None:
    complete(tmp_path)
    lines = tmp_path / "hypotheses.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b"vier", b"acht"))
    with pytest.raises(DataError, match=r"hypotheses\.jsonl: damaged: expected SHA-256"):
        store(tmp_path).read()


def test_missing_translations_are_refused(tmp_path: Path) -> None:
    complete(tmp_path)
    (tmp_path / "hypotheses.jsonl").unlink()
    with pytest.raises(DataError, match=r"hypotheses\.jsonl: expected a readable file, found: No such file"):
        store(tmp_path).read()


@pytest.mark.parametrize("damaged", ["hypotheses.json", "hypotheses.jsonl"])
def test_damaged_translations_are_made_anew_if_forced(tmp_path: Path, damaged: str) -> None:
    complete(tmp_path)
    (tmp_path / damaged).write_text("{")
    assert store(tmp_path).find() is None
    for resume, advice in ((False, "--force makes them anew"), (True, "remove this one")):
        with pytest.raises(DataError, match=f"{damaged}.*; {advice}, or name another directory by --hypotheses$"):
            store(tmp_path).open(force=False, resume=resume).__enter__()
    assert {path.name for path in tmp_path.iterdir()} == {"hypotheses.json", "hypotheses.jsonl"}
    with store(tmp_path).open(force=True):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        '{"row": 3, "texts": [], "log_probs": []}',
        '{"row": 0, "texts": ["a"], "log_probs": []}',
        '{"row": 0, "texts": [1], "log_probs": [0.5]}',
        '{"row": 0, "texts": ["a"], "log_probs": [NaN]}',
        '{"row": 0, "texts": "a", "log_probs": [0.5]}',
        "[]",
        "nothing",
    ],
)
def test_a_damaged_line_ends_what_is_there(tmp_path: Path, line: str) -> None:
    begin(tmp_path, 1)
    with (tmp_path / "hypotheses.partial.jsonl").open("a") as file:
        file.write(line + "\n")
    assert store(tmp_path).read_partial() == SOURCES[:1]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"identity": 3}', '{"sha256": {}}'])
def test_a_damaged_document_is_one_of_our_errors(tmp_path: Path, content: str) -> None:
    complete(tmp_path)
    (tmp_path / "hypotheses.json").write_text(content)
    with pytest.raises(LiteNlpError), store(tmp_path).open(force=False):
        store(tmp_path).read()


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    (tmp_path / "hypotheses.json").write_text(json.dumps({"identity": IDENTITY}))
    (tmp_path / "hypotheses.partial.jsonl").symlink_to("/dev/full")
    with (
        pytest.raises(OutputError, match="could not be written: No space left on device"),
        store(tmp_path).appending() as appender,
    ):
        appender.add(SOURCES)
