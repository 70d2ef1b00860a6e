"""Records of a model with any JSON in them are shown or refused with our error; nothing else happens."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich.console import Console

from lite_nlp.api.budget import check_budget
from lite_nlp.artifacts.models import Source
from lite_nlp.artifacts.records import LEDGER_FILE, read_record
from lite_nlp.budget.reporting.html import render_page
from lite_nlp.budget.reporting.report import BudgetReport
from lite_nlp.budget.reporting.tables import model_tables
from lite_nlp.compress.lnlp.container import write_container
from lite_nlp.core.errors import LiteNlpError

LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, -1, 7, 2**63 - 1, -(2**63), 1.5, -1e308, 5e-324, "train", "valid", "bleu", "\x1b[2J", ""])
)
VALUES = LEAVES | st.lists(LEAVES, max_size=2) | st.dictionaries(st.sampled_from(["bleu", "chrf", "src"]), LEAVES)


def keyed(keys: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with some of these keys, so that a value of a wrong kind stands where another is expected."""
    return st.fixed_dictionaries({}, optional=dict.fromkeys(keys.split(), values))


FIGURES = keyed("bleu bleu_low bleu_high loss nll", LEAVES) | VALUES
SCORES = keyed("test valid", FIGURES) | LEAVES
ROW = st.builds(
    lambda row, scores: row | scores,
    keyed("stage file size_bytes ratio sparsity bits_per_weight macs seconds", VALUES),
    keyed("scores", FIGURES),
)
ROWS = st.lists(ROW, max_size=3)
LEDGER = st.fixed_dictionaries({}, optional={"stages": ROWS, "candidates": ROWS, "text": VALUES, "name": VALUES})
METRICS = st.fixed_dictionaries(
    {},
    optional={
        "scores": SCORES, "valid": FIGURES, "uncompressed": SCORES, "languages": VALUES, "labels": VALUES,
        "data": VALUES, "seconds": VALUES,
    },
)  # fmt: skip
LOG = st.lists(keyed("event step loss nll bleu epoch tokens_per_second", VALUES), max_size=3) | st.lists(
    st.builds(
        lambda line, event, step, loss: {**line, "event": event, "step": step, "loss": loss},
        keyed("nll bleu epoch tokens_per_second", VALUES),
        st.sampled_from(["train", "valid"]),
        st.sampled_from([0, -5, 3, 2**63 - 1, True]),
        LEAVES,
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def budget() -> BudgetReport:
    return check_budget("multi30k-transformer")


def show(source: Source, budget: BudgetReport) -> None:
    """Everything that the commands make of a record."""
    try:
        record = read_record(source)
    except LiteNlpError:
        return
    json.dumps(record.to_json(), allow_nan=False)
    with Path("/dev/null").open("w") as nowhere:
        Console(file=nowhere).print(model_tables(budget, record))
    render_page(budget, record=record)


unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


@unhurried
@given(metrics=METRICS, log=LOG)
def test_any_records_of_a_model_directory(
    tmp_path: Path, budget: BudgetReport, metrics: object, log: list[object]
) -> None:
    (tmp_path / "metrics.json").write_text(json.dumps(metrics))
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    show(Source("directory", tmp_path, "run"), budget)


@unhurried
@given(metrics=METRICS, metadata=LEDGER, ledger=LEDGER)
def test_any_records_of_a_container(
    tmp_path: Path, budget: BudgetReport, metrics: object, metadata: dict[str, object], ledger: object
) -> None:
    path = tmp_path / "model.lnlp"
    write_container(path, tensors={}, files={"metrics.json": json.dumps(metrics).encode()}, metadata=metadata)
    (tmp_path / LEDGER_FILE).write_text(json.dumps(ledger))
    show(Source("container", path, "model"), budget)


@pytest.mark.parametrize(
    "line",
    [b"[" * 100_000, b'{"event": "train", "step": 1, "loss": ' + b"9" * 9000 + b"}", b"\xff\xfe", b'{"step": 1e999}'],
)
def test_a_damaged_line_of_a_log_is_left_out(tmp_path: Path, line: bytes) -> None:
    whole = b'{"event": "train", "step": 3, "loss": 2.5}'
    (tmp_path / "log.jsonl").write_bytes(b"\n".join([line, whole, b""]))
    assert read_record(Source("directory", tmp_path, "run")).history.losses == [2.5]
