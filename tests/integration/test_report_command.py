"""``lite-nlp report`` on every kind of MODEL, and ``report_model``, which it calls."""

import json
from pathlib import Path

import pytest

import lite_nlp
from lite_nlp.artifacts.models import list_shipped
from lite_nlp.core.errors import ModelError, UsageError
from tests.integration.conftest import LiteNlp, write_model

CARD = Path(__file__).parents[2] / "lite_nlp" / "assets" / "tatoeba-en-de.json"
METRICS = {
    "languages": {"src": "en", "tgt": "de"},
    "steps": 7,
    "valid": {"loss": 2.5, "bleu": 12.25},
    "scores": {"small test": {"bleu": 11.5, "bleu_low": 10.0, "bleu_high": 13.0}},
}
LOG = (
    '{"event": "train", "step": 1, "loss": 9.0}\n{"event": "valid", "step": 7, "epoch": 1, "loss": 2.5}\n{"event": "va'
)


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    path = tmp_path / "multi30k-transformer"
    write_model(
        path, ["two dogs run", "a cat sleeps"], metrics=METRICS, family="transformer", num_heads=2, cross_num_heads=2
    )
    (path / "log.jsonl").write_text(LOG, encoding="utf-8")
    (path / "notes.txt").write_text("mine", encoding="utf-8")
    return path


@pytest.fixture
def command(lite_nlp: LiteNlp) -> LiteNlp:
    """The command line under another name than the package's."""
    return lite_nlp


def test_a_run_in_json(command: LiteNlp, run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A directory that is called like a preset is the directory.
    monkeypatch.chdir(run_directory.parent)
    content = command.json("report", run_directory.name)
    assert (content["model"], content["kind"], content["size_bytes"]) == (run_directory.name, "directory", None)
    assert content["scores"] == METRICS["scores"]
    assert content["training"]["steps"] == 7
    assert content["validations"] == [{"step": 7, "epoch": 1, "loss": 2.5}]
    assert {file["name"] for file in content["files"]} == {
        "config.toml",
        "metrics.json",
        "model.safetensors",
        "tokenizer.json",
    }
    assert content["budget"]["target"] == run_directory.name
    assert content["budget"]["within_budget"] is True
    report = lite_nlp.report_model(run_directory)
    assert json.loads(json.dumps(report.to_json()))["scores"] == content["scores"]


def test_the_shipped_model_for_people_and_as_a_page(command: LiteNlp, tmp_path: Path) -> None:
    done = command("report", "--html", tmp_path / "report.html")
    assert done.code == 0
    assert done.err.splitlines()[-1] == f"wrote {tmp_path / 'report.html'}"
    scores = json.loads(CARD.read_text(encoding="utf-8"))["scores"]["tatoeba test"]
    bleu = f"{scores['bleu']:.2f}"
    for words in ("96,015,360", "tatoeba test", bleu, f"{scores['bleu_low']:.2f} to {scores['bleu_high']:.2f}"):
        assert words in done.out
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<title>Report on tatoeba-en-de</title>" in page
    assert bleu in page
    assert "http" not in page.replace("http-equiv", "")
    assert command("report", "--html", tmp_path / "report.html").code == 1
    assert command("report", "--html", tmp_path / "report.html", "--force").code == 0


def test_a_compressed_model_has_its_ledger(command: LiteNlp, tmp_path: Path) -> None:
    from lite_nlp.compress.lnlp.container import read_container, write_container
    from lite_nlp.configs import preset_path

    stages = [{"stage": "original", "size_bytes": 1 << 20, "ratio": 1.0, "scores": {"bleu": 40.0}, "file": "o.lnlp"}]
    out = tmp_path / "compressed"
    out.mkdir()
    path = out / "model.lnlp"
    write_container(
        path,
        tensors={},
        files={
            "config.toml": preset_path("multi30k-transformer").read_bytes(),
            "metrics.json": json.dumps({"uncompressed": METRICS}).encode(),
        },
        metadata={"kind": "model", "name": "m", "stage": "entropy-coded", "stages": stages},
    )
    assert read_container(path).metadata["stages"] == stages
    size = path.stat().st_size
    for named in (path, out):
        content = command.json("report", named)
        assert (content["kind"], content["size_bytes"]) == ("container", size)
        assert content["stages"] == [
            *stages,
            {"stage": "entropy-coded", "file": "model.lnlp", "size_bytes": size, "ratio": round((1 << 20) / size, 3)},
        ]
        assert content["training"]["steps"] == 7
        # Scores from before compression are not the file's own.
        assert content["scores"] == {}


def test_a_loaded_model_is_reported_like_its_directory(run_directory: Path) -> None:
    loaded = lite_nlp.report_model(lite_nlp.load_model(str(run_directory)))
    report = lite_nlp.report_model(run_directory)
    assert loaded.budget.to_json() == report.budget.to_json()
    assert loaded.record.scores == report.record.scores


def test_bad_input_is_named(command: LiteNlp, run_directory: Path) -> None:
    with pytest.raises(
        ModelError, match=r"lite-transformer-wmt-200: expected a model directory, .* found nothing there"
    ):
        lite_nlp.report_model("lite-transformer-wmt-200")
    with pytest.raises(ModelError, match=r"MODEL: expected a model directory, .* found an empty name"):
        lite_nlp.report_model("")
    with pytest.raises(UsageError, match=r"expected a \.lnlp file or a bundle to weigh"):
        lite_nlp.report_model(run_directory, max_size=1000)
    (run_directory / "metrics.json").write_text("[1]", encoding="utf-8")
    done = command("report", run_directory)
    assert (done.code, done.out) == (1, "")
    assert "metrics.json: expected a JSON object, found a list" in done.err


def test_every_shipped_model_reports(command: LiteNlp) -> None:
    for shipped in list_shipped():
        content = command.json("report", shipped.name)
        assert set(shipped.card["scores"]) <= set(content["scores"])
