from lite_nlp.tasks.changed_outputs import ScoredTexts, find_changes

REFERENCES = [f"{number} right" for number in range(30)]


def texts(asked: list[int] | None = None) -> ScoredTexts:
    def sources(places: object) -> list[str]:
        assert isinstance(places, list)
        if asked is not None:
            asked.extend(places)
        return [f"source {place}" for place in places]

    def score(output: str, reference: str) -> float:
        assert reference in REFERENCES
        return float(output.split()[-1])

    return ScoredTexts(metric="points", score=score, references=REFERENCES, sources=sources)


def test_outputs_that_changed_most_come_first() -> None:
    before = [f"old {50}"] * 30
    after = list(before)
    after[3], after[7], after[8], after[20] = "new 60", "new 10", "newer 50", "new 55"
    asked: list[int] = []
    found = find_changes(before, after, texts(asked))
    assert (found.total, found.unchanged, found.better, found.worse) == (30, 26, 2, 1)
    # In either direction; a change that costs nothing is the last.
    assert asked == [7, 3, 20, 8]
    assert [(row.source, row.after, row.score_before, row.score_after) for row in found.rows] == [
        ("source 7", "new 10", 50, 10),
        ("source 3", "new 60", 50, 60),
        ("source 20", "new 55", 50, 55),
        ("source 8", "newer 50", 50, 50),
    ]
    assert {row.before for row in found.rows} == {"old 50"}
    assert found.as_dict()["rows"][0]["reference"] == "7 right"


def test_no_more_are_shown_than_a_reader_looks_at() -> None:
    found = find_changes(["a 1"] * 30, ["b 2"] * 30, texts())
    assert (found.better, found.unchanged, len(found.rows)) == (30, 0, 20)


def test_nothing_changed() -> None:
    found = find_changes(["a 1"] * 30, ["a 1"] * 30, texts())
    assert (found.unchanged, found.rows) == (30, ())
