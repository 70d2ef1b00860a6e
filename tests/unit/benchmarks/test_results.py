"""The experiments' runner: what it records of a stage, and what stands below a table."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.benchmarks.scripts import loaded


@pytest.fixture(scope="module")
def modules() -> Iterator[SimpleNamespace]:
    with loaded("provenance", "stages", "results", "corpus_lines") as found:
        yield SimpleNamespace(**found)


def measurement(modules: SimpleNamespace, out: Path, program: str) -> Any:
    return modules.stages.Measure(out=out, program=(sys.executable, "-c"), arguments=[program])


def test_a_run_is_recorded_with_command_commit_and_machine(modules: SimpleNamespace, tmp_path: Path) -> None:
    out = tmp_path / "figure.json"
    stage = measurement(modules, out, "print('{\"bleu\": 1}')")
    modules.stages.run_stage(stage)
    modules.stages.run_stage(stage)  # done before: neither run nor recorded again
    assert json.loads(out.read_text()) == {"bleu": 1}
    (run,) = modules.provenance.read_runs(out)
    assert run["command"].startswith(f"{Path(sys.executable).name} -c 'print(")
    assert run["commit"] == modules.provenance.commit()
    assert "cores of" in run["machine"]
    assert run["seconds"] >= 0


def test_a_run_that_fails_is_recorded_too(modules: SimpleNamespace, tmp_path: Path) -> None:
    out = tmp_path / "figure.json"
    with pytest.raises(modules.stages.Failed, match="exit code 3"):
        modules.stages.run_stage(measurement(modules, out, "raise SystemExit(3)"))
    assert not out.exists()
    modules.stages.run_stage(measurement(modules, out, "print('{}')"))
    assert ["SystemExit" in run["command"] for run in modules.provenance.read_runs(out)] == [True, False]


def row(name: str, *runs: tuple[str, str]) -> dict[str, Any]:
    found = [{"commit": commit, "machine": machine} for commit, machine in runs]
    return {"name": name, "evaluation": {}, "ledger": None, "stages": [{"out": name, "runs": found}]}


def test_the_line_below_a_table_counts_what_is_recorded(modules: SimpleNamespace) -> None:
    line = modules.provenance.source_line
    assert line([row("a")]) == ""
    assert line([row("a", ("c1", "X"))]) == "Recorded: 1 on X; commit `c1`."
    rows = [row("a", ("c1", "X"), ("c2", "X")), row("b", ("c1", "Y")), row("c")]
    assert line(rows) == "Recorded: 1 of 3 measurements on X; 1 of 3 measurements on Y; commits `c1`, `c2`."
    not_measured = {**row("d", ("c9", "Z")), "evaluation": None}
    assert line([*rows, not_measured]) == line(rows)


def test_rows_of_two_machines_are_named(modules: SimpleNamespace, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{**row("a", ("c1", "X")), "budget": None, "evaluation": None}]
    modules.results._with_sources("t2r", rows)
    assert capsys.readouterr().err == ""
    rows += [{**row("b", ("c1", "Y")), "budget": None, "evaluation": None}]
    modules.results._with_sources("t2r", rows)
    assert capsys.readouterr().err == "t2r: expected rows of one machine, found X; Y\n"


@pytest.mark.parametrize(
    "name", ["families", "multi30k", "language-models", "summaries", "inference", "sentiment", "sentiment-lstm"]
)
def test_a_row_stopped_between_its_measures_is_not_measured_yet(modules: SimpleNamespace, name: str) -> None:
    """Its scores are there, and its parameters and Mult-Adds are not."""
    metrics = ("bleu", "chrf", "rouge1", "rouge2", "rougeLsum", "perplexity", "word_perplexity", "bits_per_character")
    scores = {f"{metric}{end}": 1.0 for metric in (*metrics, "accuracy") for end in ("", "_low", "_high")}
    stopped = {
        **row("a-1"),
        "group": sys.modules["families"].FAMILIES[0].name,
        "run": "a-1",
        "training": {"ended_by": "steps", "valid": {"perplexity": 1.0, "accuracy": 1.0}},
        "evaluation": {"scores": scores},
        "budget": None,
        "tokenized_bleu": 1.0,
    }
    assert modules.results.MISSING in modules.results.TABLES[name]([stopped])


def test_what_is_not_measured_here_stays_on_the_page(modules: SimpleNamespace, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    old = "| name | score |\n|---|---|\n| a | 1 |\n| b | 2 |\n\nRecorded: 2 on X; commit `c1`."
    page.write_text(f"before\n<!-- table: t2r -->\n\n{old}\n\n<!-- end of table -->\nafter\n")
    missing = modules.results.MISSING
    modules.results.write_page(page, {"t2r": f"| name | score |\n|---|---|\n| a | {missing} |\n| b | {missing} |"})
    assert old in page.read_text()
    modules.results.write_page(
        page, {"t2r": f"| name | score |\n|---|---|\n| a | {missing} |\n| b | 3 |\n\nRecorded: 1 on Y; commit `c2`."}
    )
    text = page.read_text()
    assert "| a | 1 |\n| b | 3 |\n\nRecorded: 1 on Y; commit `c2`." in text
    assert "on X" not in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")


def test_the_page_is_written_unless_it_is_not_to_be(
    modules: SimpleNamespace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = "<!-- table: t2r -->\n\n\n\n<!-- end of table -->\n"
    page, other = tmp_path / "results.md", tmp_path / "other.md"
    monkeypatch.setattr(modules.results, "PAGE", page)

    def collected(*more: str) -> tuple[bool, bool]:
        for path in (page, other):
            path.write_text(table, encoding="utf-8")
        command = ["results.py", "--collect", "--only", "t2r", "--runs", str(tmp_path / "runs"), *more]
        monkeypatch.setattr(sys, "argv", command)
        modules.results.main()
        return page.read_text(encoding="utf-8") != table, other.read_text(encoding="utf-8") != table

    assert collected() == (True, False)
    assert collected("--no-page") == collected("--max-steps", "2") == (False, False)
    assert collected("--page", str(other)) == collected("--max-steps", "2", "--page", str(other)) == (False, True)


def test_the_commands_of_one_row(modules: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = modules.results.Place(corpora=tmp_path, runs=tmp_path / "runs")
    modules.results.show_commands("families", place, ["T2R, finetuned, seed 2"])
    verbs = [line.split()[1] for line in capsys.readouterr().out.splitlines()]
    assert verbs == ["data", "train", "convert", "train", "evaluate", "budget"]


def test_corpora_that_are_not_there(
    modules: SimpleNamespace, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nowhere, runs = tmp_path / "nowhere", tmp_path / "runs"
    monkeypatch.setattr(sys, "argv", ["results.py", "--corpora", str(nowhere), "--runs", str(runs)])
    with pytest.raises(SystemExit, match="2"):
        modules.results.main()
    assert (
        f"--corpora: expected a directory with copies of the corpora, found none: {nowhere}" in capsys.readouterr().err
    )
    assert not runs.exists()
    table = tmp_path / "table.tsv.gz"
    words = ["corpus_lines.py", str(table), "--label", "label", "--out", str(tmp_path / "lines.tsv")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match="2"):
        modules.corpus_lines.main()
    assert f"expected a table, found none: {table}" in capsys.readouterr().err
