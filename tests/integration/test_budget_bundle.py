"""``lite-nlp budget`` of bundles whose manifests record what their graphs do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lite_nlp.budget.traced.graphs import GraphWork
from lite_nlp.core.errors import BundleError
from tests.integration.conftest import LiteNlp
from tests.integration.small_bundle import alter_work, record_work, write_small_bundle


@pytest.fixture(scope="module")
def recorded() -> dict[str, GraphWork]:
    return record_work()


def test_the_columns_are_what_is_executed_and_what_the_implementation_adds(
    lite_nlp: LiteNlp, tmp_path: Path, recorded: dict[str, GraphWork]
) -> None:
    path = write_small_bundle(tmp_path / "tiny.zip", recorded)
    content = lite_nlp.json("budget", path, "--src-len", "7", "--tgt-len", "9", "--beam", "2")
    # Step t of 9 attends over 9 slots instead of t, 8 channels wide, for two hypotheses; the convolution of 8 channels
    # over 7 tokens is a 7 x 7 matrix instead of 5 taps.
    empty, band = 2 * 2 * 8 * (9 * 8 // 2), 8 * 7 * (7 - 5)
    assert [(item["name"], item["macs"]) for item in content["graphs"]["overheads"]] == [
        ("empty cache slots", empty),
        ("band matrix of the convolution", band),
    ]
    graphs = content["macs"]["graphs"]
    assert graphs == dict.fromkeys(("torch", "onnx", "executorch"), content["macs"]["executed"] + empty + band)
    columns = content["graphs"]["columns"]
    assert {name: column["origin"] for name, column in columns.items()} == {
        "torch": "recounted",
        "onnx": "recorded",
        "executorch": "recorded",
    }
    for name, column in columns.items():
        assert sum(column["encode"].values()) + sum(column["decode_steps"].values()) == graphs[name]
    assert content["graphs"]["agree"] is True


def test_graphs_that_do_other_work_end_the_command(
    lite_nlp: LiteNlp, tmp_path: Path, recorded: dict[str, GraphWork]
) -> None:
    path = write_small_bundle(tmp_path / "altered.zip", alter_work(recorded))
    page = tmp_path / "page.html"
    code, out, err = lite_nlp("budget", path, "--json", "--html", page)
    assert code == 1
    assert json.loads(out)["graphs"]["agree"] is False
    assert (
        "altered: expected graphs that do the model's work, found differences: "
        "executorch: decode_step: matmul: 3 C Mult-Adds beyond the model's"
    ) in err
    assert "the graphs do not agree" in page.read_text(encoding="utf-8")


def test_a_bundle_that_tells_nothing_is_held_against_nothing(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    content = lite_nlp.json("budget", write_small_bundle(tmp_path / "old.zip", {}), "--src-len", "7", "--tgt-len", "9")
    # The model itself can be counted all the same.
    assert set(content["macs"]["graphs"]) == {"torch"}


def test_without_torch_every_column_is_recorded(tmp_path: Path, recorded: dict[str, GraphWork]) -> None:
    path = write_small_bundle(tmp_path / "tiny.zip", recorded)
    program = (
        "import sys; sys.modules['torch'] = sys.modules['onnx'] = None;"
        "sys.argv = ['lite-nlp', 'budget', sys.argv[1], '--src-len', '7', '--tgt-len', '9', '--json'];"
        "from lite_nlp.cli.main import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    columns = json.loads(done.stdout)["graphs"]["columns"]
    assert {column["origin"] for column in columns.values()} == {"recorded"}
    assert set(columns) == {"torch", "onnx", "executorch"}


def test_python_takes_the_graphs_figures_from_the_manifest(
    lite_nlp: LiteNlp, tmp_path: Path, recorded: dict[str, GraphWork]
) -> None:
    from lite_nlp.api.budget import check_budget, count_model
    from lite_nlp.api.report import report_model

    path = write_small_bundle(tmp_path / "tiny.zip", recorded)
    counted = count_model(path, src_len=7, tgt_len=9)
    assert counted.macs == lite_nlp.json("budget", path, "--src-len", "7", "--tgt-len", "9")["macs"]
    for budget in (check_budget(path, recount=False), report_model(path).budget):
        assert budget.graphs is not None
        assert set(budget.graphs.origins.values()) == {"recorded"}
        budget.require_equal_graphs()
    record = report_model(path).record
    assert record.kind == "bundle"
    assert "config.toml" in record.files
    with pytest.raises(BundleError, match="altered: expected graphs that do the model's work"):
        check_budget(write_small_bundle(tmp_path / "altered.zip", alter_work(recorded))).require_equal_graphs()
