"""The page of ``lite-nlp report --html`` as a browser shows it, for every kind of model."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

import lite_nlp
from lite_nlp.artifacts import translators
from lite_nlp.core.errors import RuntimeUnavailableError
from lite_nlp.data.pairs.everyday import read_everyday_pairs
from tests.integration.browser import Browser
from tests.integration.conftest import LiteNlp, write_model

SENTENCES = ["two dogs run in the snow", "a cat sleeps", "a man reads", "a woman sings"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Browser:
    return Browser(tmp_path_factory.mktemp("profile"))


def write_log(path: Path, steps: int = 40) -> None:
    lines = []
    for step in range(1, steps + 1):
        lines.append({"event": "train", "step": step, "loss": 9.0 - step / 10, "tokens_per_second": 900.0 + step})
        if step % 10 == 0:
            lines.append({"event": "valid", "step": step, "epoch": 1, "loss": 8.0 - step / 10, "nll": 2.0, "bleu": 3.0})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_bench(path: Path, *, manifest_sha256: str, **model: str) -> None:
    summary = {"p50": 41.5, "p90": 60.0, "mean": 42.0, "min": 30.0, "max": 70.0}
    row = {
        "runtime": "onnx", "version": "1.31.1", "threads": 2, "precision": "int8",
        "sentence_ms": summary, "first_token_ms": summary, "tokens_per_s": 512.4,
        "memory_bytes": {"before": 10_000_000, "loaded": 30_000_000, "peak": 52_000_000},
    }  # fmt: skip
    content = {
        "schema_version": 1, "tool": "lite-nlp bench", "tool_version": "0.1.0", "created": "2026-11-21T06:00:00Z",
        "device": {"name": "board", "cpu": "Cortex-A72", "cores": 4, "os": "Linux"},
        "model": {"name": "small", "manifest_sha256": manifest_sha256, **model},
        "settings": {"sentences": 32, "beam": 1, "repeats": 3}, "rows": [row],
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.fixture
def run_directory(tmp_path: Path) -> Path:
    path = tmp_path / "first"
    metrics = {"languages": {"src": "en", "tgt": "de"}, "steps": 40, "valid": {"loss": 4.0, "bleu": 3.0}}
    write_model(path, SENTENCES, metrics=metrics, family="transformer", num_heads=2, cross_num_heads=2)
    write_log(path / "log.jsonl")
    return path


def sections(dom: str) -> list[str]:
    return re.findall(r'<section id="([^"]*)"', dom)


def test_a_run_with_everything_renders_in_the_browser(
    browser: Browser, run_directory: Path, lite_nlp: LiteNlp, tmp_path: Path
) -> None:
    page, bench = tmp_path / "report.html", tmp_path / "bench.json"
    write_bench(bench, manifest_sha256="0" * 64)
    done = lite_nlp("report", run_directory, "--html", page, "--samples", "3", "--bench-json", bench)
    assert done.code == 0, done.err
    dom = browser.dom(page)
    assert sections(dom)[:7] == ["card", "budget", "scores", "examples", "speed", "training", "files"]
    text = re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]*>", " ", dom.split("</style>")[1])))
    for words in (
        "en to de",
        "encoder-decoder, transformer",
        "3 of the 400 examples of the package's everyday sentences",
        "board, Cortex-A72, 4 cores, Linux",
        "int8 41.5 ms",
        "42 MB",
        "Validation BLEU",
        "Tokens per second",
        f"lite-nlp report {run_directory} --html {page}",
    ):
        assert words in text
    # Nothing is loaded, asked for or complained about, and every chart has a size.
    assert browser.console(page) == []
    measured = browser.measure(page)
    assert measured["loaded"] == []
    assert len(measured["charts"]) == 6
    assert all(chart[0] > 200 and chart[1] > 100 for chart in measured["charts"])
    assert measured["cut_texts"] == []
    phone = browser.measure_phone(page, width=400)
    assert (phone["page_width"], phone["window_width"], phone["wide"]) == (400, 400, [])


def test_the_page_of_a_compression_renders_in_the_browser(
    browser: Browser, run_directory: Path, lite_nlp: LiteNlp, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    # Random weights translate at length, which is not what this is about.
    config = run_directory / "config.toml"
    config.write_text(config.read_text(encoding="utf-8") + "\n[decoding]\nmax_length = 3\n", encoding="utf-8")
    lite_nlp.json("compress", run_directory, "--no-finetune", "--reference", run_directory, "--out", out)
    page = out / "compression.html"
    assert sections(browser.dom(page)) == ["summary", "stages", "bytes", "plan", "matrices", "outputs"]
    assert browser.console(page) == []
    measured = browser.measure(page)
    assert measured["loaded"] == []
    assert measured["cut_texts"] == []
    assert len(measured["charts"]) == 3
    assert measured["page_width"] == measured["window_width"]
    phone = browser.measure_phone(page, width=400)
    assert (phone["page_width"], phone["wide"]) == (400, [])


def test_the_check_of_the_page_sees_what_it_should_not_do(browser: Browser, run_directory: Path) -> None:
    page = run_directory / "page.html"
    content = lite_nlp.report_model(run_directory).to_html()
    page.write_text(
        content.replace(
            "</body>", '<img src="http://example.invalid/x.png"><div style="width:600px">wide</div></body>'
        ),
        encoding="utf-8",
    )
    assert any("x.png" in line for line in browser.console(page))
    phone = browser.measure_phone(page, width=400)
    assert phone["page_width"] == 600
    assert len(phone["wide"]) == 1


def test_the_shipped_model_names_its_licences_and_versions(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert lite_nlp("report", "--html", page, "--samples", "2").code == 0
    content = page.read_text(encoding="utf-8")
    for words in ("CC BY 2.0 FR", "written by", "executorch", "Not measured", "2 of the 400 examples"):
        assert words in content
    assert "http" not in content.replace("http-equiv", "")


def test_a_benchmark_of_another_bundle_is_refused(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    bench = tmp_path / "bench.json"
    write_bench(bench, manifest_sha256="f" * 64)
    done = lite_nlp("report", "--bench-json", bench)
    assert done.code == 1
    assert "expected a benchmark of tatoeba-en-de" in done.message
    assert "found one of small (manifest ffffffffffff)" in done.message


def test_a_benchmark_of_another_task_is_refused(lite_nlp: LiteNlp, run_directory: Path, tmp_path: Path) -> None:
    bench = tmp_path / "bench.json"
    write_bench(bench, manifest_sha256="f" * 64, task="classification")
    done = lite_nlp("report", run_directory, "--bench-json", bench)
    assert done.code == 1
    assert "expected a benchmark of a model for translation, found one of small, for classification" in done.message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "expected JSON, found an error: Expecting"),
        ("[1]", "expected the JSON of lite-nlp bench, schema_version 1, found list"),
        ('{"schema_version": 2, "rows": []}', "found schema_version 2"),
        ('{"schema_version": 1}', "found an object without 'rows'"),
    ],
)
def test_a_file_that_is_no_benchmark_is_refused(
    lite_nlp: LiteNlp, run_directory: Path, tmp_path: Path, content: str, words: str
) -> None:
    bench, page = tmp_path / "bench.json", tmp_path / "page.html"
    bench.write_text(content, encoding="utf-8")
    done = lite_nlp("report", run_directory, "--bench-json", bench, "--html", page, "--samples", "0")
    assert (done.code, done.out) == (1, "")
    assert f"{bench}: " in done.message
    assert words in done.message
    assert not page.exists()


def test_options_that_do_not_go_together(lite_nlp: LiteNlp, run_directory: Path) -> None:
    done = lite_nlp("report", run_directory, "--bench", "--bench-json", "b.json")
    assert done.code == 2
    assert "--bench and --bench-json: expected one of them" in done.message
    done = lite_nlp("report", run_directory, "--split", "valid")
    assert done.code == 2
    assert "expected --data DIR beside it" in done.message


def test_everyday_sentences_are_shown_in_both_directions_or_refused(
    lite_nlp: LiteNlp, run_directory: Path, tmp_path: Path
) -> None:
    metrics = run_directory / "metrics.json"
    metrics.write_text('{"languages": {"src": "de", "tgt": "en"}}', encoding="utf-8")
    examples = lite_nlp.json("report", run_directory, "--samples", "1")["examples"]
    english, german = read_everyday_pairs()[0]
    assert [(row["source"], row["reference"]) for row in examples["rows"]] == [(german, english)]
    metrics.write_text('{"languages": {"src": "fr", "tgt": "en"}}', encoding="utf-8")
    done = lite_nlp("report", run_directory, "--samples", "1")
    assert (done.code, done.out) == (2, "")
    assert "--samples 1: expected --data DIR beside it" in done.message
    assert "found encoder-decoder of fr to en" in done.message
    # A page has outputs where there are any.
    assert lite_nlp("report", run_directory, "--html", tmp_path / "page.html").code == 0


def test_a_report_without_a_runtime_says_so_and_has_the_rest(
    lite_nlp: LiteNlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise RuntimeUnavailableError("onnx: not installed here")

    monkeypatch.setattr(translators, "open_translator", refuse)
    page = tmp_path / "page.html"
    done = lite_nlp("report", "--html", page)
    assert done.code == 0
    assert "warning: no outputs in the report: onnx: not installed here" in done.message
    content = page.read_text(encoding="utf-8")
    assert "None were made" in content
    assert '<section id="budget"' in content


@pytest.mark.parametrize("words", [(), ("--samples", "0")])
def test_data_that_is_none_is_an_error(
    lite_nlp: LiteNlp, run_directory: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = lite_nlp("report", run_directory, "--data", tmp_path / "nothing", "--html", tmp_path / "page.html", *words)
    assert (done.code, done.out) == (1, "")
    assert "nothing" in done.message
    assert not (tmp_path / "page.html").exists()


def test_the_same_model_gives_the_same_bytes(run_directory: Path) -> None:
    pages = [lite_nlp.report_model(run_directory, samples=2).to_html() for _ in range(2)]
    assert pages[0] == pages[1]
