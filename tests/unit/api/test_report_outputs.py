"""Outputs beside references in a report of a model."""

from pathlib import Path

import pytest

from lite_nlp.api import report_outputs
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.pairs import everyday


class _Echo:
    """A translator that says what it is given."""

    def __enter__(self) -> "_Echo":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def translate_lines(self, lines: list[str]) -> list[str]:
        return lines


@pytest.mark.parametrize(
    ("pairs", "samples", "shown"),
    [
        (15, 8, [0, 1, 3, 5, 7, 9, 11, 13]),
        (9, 8, [0, 1, 2, 3, 4, 5, 6, 7]),
        (400, 8, [0, 50, 100, 150, 200, 250, 300, 350]),
        (3, 8, [0, 1, 2]),
        (0, 8, []),
    ],
)
def test_samples_are_spread_over_all_lines(
    monkeypatch: pytest.MonkeyPatch, pairs: int, samples: int, shown: list[int]
) -> None:
    monkeypatch.setattr(everyday, "read_everyday_pairs", lambda: [(str(line), "") for line in range(pairs)])
    monkeypatch.setattr("lite_nlp.artifacts.translators.open_translator", lambda *_, **__: _Echo())
    outputs = report_outputs.run_on_everyday(
        Path("model"), languages="en to de", samples=samples, progress=SilentProgress()
    )
    assert outputs.examples is not None
    assert [row.source for row in outputs.examples.rows] == list(map(str, shown))
    assert outputs.examples.total == pairs
