"""``lite-nlp compress`` on a model small enough to train here until it knows its few sentences by heart."""

import json
from pathlib import Path
from typing import Any

import pytest

from lite_nlp import report_model
from lite_nlp.artifacts.models import load_model
from lite_nlp.compress.compressed import LEDGER_FILES
from lite_nlp.compress.pipeline import COMPRESSION_FILES
from lite_nlp.core.outputs import check_output_directory
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.tasks.translation.bleu import score_translations
from lite_nlp.tasks.translation.calibration import everyday_calibration
from lite_nlp.tasks.translation.evaluate import translate_all
from tests.integration.conftest import LiteNlp, write_model

from .by_heart import PAIRS, Compress

STAGES = ["original", "pruned", "kmeans", "entropy-coded"]


def test_ledger_and_files(run: Compress, tmp_path: Path) -> None:
    out = tmp_path / "small"
    stages = run.stages("--out", out, "--finetune-steps", "20")
    assert [row["stage"] for row in stages if row["stage"] != "finetuned"] == STAGES
    keys = {"stage", "file", "size_bytes", "ratio", "sparsity", "bits_per_weight", "macs", "scores", "seconds"}
    for stage in stages:
        assert set(stage) == keys | {"bytes_by_kind", "intervals", "against_original", "estimated_ms"}
        assert stage["size_bytes"] == (out / stage["file"]).stat().st_size == sum(stage["bytes_by_kind"].values())
        assert set(stage["intervals"]) == {"bleu", "chrf"}
    assert stages[0]["bits_per_weight"] == 32
    assert stages[0]["scores"]["bleu"] > 90
    assert stages[-1]["file"] == "model.lnlp"
    assert stages[-1]["ratio"] > 4
    assert stages[-1]["scores"]["bleu"] > 80
    # The last two stages hold the same weights.
    assert stages[-1]["scores"] == stages[-2]["scores"]
    check_pictures(out, stages)


def check_pictures(out: Path, stages: list[dict[str, Any]]) -> None:
    """The plot beside the files, and the report of them, have the figures of every stage."""
    picture = (out / "size-quality.svg").read_text(encoding="utf-8")
    assert "Compression of model" in picture
    for row in stages:
        assert f"{row['stage']}: {row['size_bytes']:,} bytes, BLEU {row['scores']['bleu']:.2f}" in picture
    assert "embedding.weight" in (out / "plan.svg").read_text(encoding="utf-8")
    ledger = {"model": "model", "text": "some sentences", "metric": "bleu", "stages": stages}
    (out / "ledger.json").write_text(json.dumps(ledger), encoding="utf-8")
    report = report_model(out)
    # With the ledger beside it, the final file has its own score and every figure of its stage.
    assert list(report.record.stages) == stages
    assert report.record.scores == {"some sentences": stages[-1]["scores"]}
    assert '<title id="size-quality-title">' in report.to_html()
    # A ledger of other files is none of this one's.
    stages[-1]["size_bytes"] += 1
    (out / "ledger.json").write_text(json.dumps(ledger), encoding="utf-8")
    assert report_model(out).record.scores == {}
    assert report_model(out).record.stages[0]["scores"] == stages[0]["scores"]


def test_the_ledger_is_kept_beside_the_files_and_read_by_report(
    run: Compress, lite_nlp: LiteNlp, tmp_path: Path
) -> None:
    out = tmp_path / "small"
    done = run("--out", out, "--no-finetune", "--json")
    assert done.code == 0, done.err
    assert (out / "ledger.json").read_text(encoding="utf-8") == done.out
    stages = json.loads(done.out)["stages"]
    found = lite_nlp.json("report", out)
    assert found["stages"] == stages
    assert found["plan"] == json.loads(done.out)["plan"]
    assert lite_nlp.json("report", out / "pruned.lnlp")["plan"] is None
    page = report_model(out).to_html()
    assert '<section id="plan"' in page
    assert all(f"<bdi>{matrix['name']}</bdi>" in page for matrix in found["plan"]["matrices"])
    assert "Plan by matrix" in lite_nlp("report", out).out
    assert lite_nlp.json("report", out / "model.lnlp")["stages"] == stages
    assert lite_nlp.json("report", out / "pruned.lnlp")["stages"] == stages[:2]
    # A ledger of other files, or a damaged one, is not taken for this one's: the file's own is.
    (out / "ledger.json").write_text(done.out.replace('"size_bytes": ', '"size_bytes": 1'), encoding="utf-8")
    assert [set(row) for row in lite_nlp.json("report", out)["stages"]][-1] == {"stage", "file", "size_bytes", "ratio"}
    (out / "ledger.json").write_text("{", encoding="utf-8")
    assert len(lite_nlp.json("report", out)["stages"]) == len(stages)


def test_the_ledger_compares_with_the_original_and_a_reference_without_a_second_decoding(
    run: Compress, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[list[str]] = []

    def counted(*words: Any, **options: Any) -> list[str]:
        decoded.append(translate_all(*words, **options))
        return decoded[-1]

    monkeypatch.setattr("lite_nlp.tasks.translation.calibration.translate_all", counted)
    out = tmp_path / "small"
    options = ("--no-finetune", "--target-size", "6.5KB", "--reference", home / "model", "--out", out)
    found = run.ledger(*options)
    stages, reference = found["stages"], found["reference"]
    # The reference, and each file but the last, which holds the weights of the one before it.
    assert len(decoded) == len(stages) - (stages[1]["stage"] == "pruned" and stages[1]["sparsity"] == 0)
    # The reference is the same model: its scores are the original's, and so are the tests against it.
    assert reference["model"] == "model"
    assert reference["macs"] == stages[0]["macs"]
    assert reference["scores"]["bleu"] == stages[0]["scores"]["bleu"]
    # Its file of fp32 weights differs in the name of the stage alone.
    assert reference["size_bytes"] == pytest.approx(stages[0]["size_bytes"], abs=100)
    for stage in stages:
        assert stage["reference_ratio"] == pytest.approx(reference["size_bytes"] / stage["size_bytes"], abs=1e-3)
    assert stages[-1]["against_reference"] == stages[-1]["against_original"]
    assert stages[0]["against_original"] == {}
    assert stages[0]["against_reference"]["bleu"] == {"difference": 0, "low": 0, "high": 0, "p": 1}
    change = stages[-1]["against_original"]["bleu"]
    assert change["p"] < 0.01
    assert change["low"] <= change["difference"] <= change["high"] < 0
    texts = [PAIRS[place][1] for place in range(1, len(PAIRS), 2)]
    wanted = score_translations(decoded[-1], texts).as_dict()
    assert stages[-1]["intervals"]["bleu"] == [round(wanted["bleu_low"], 4), round(wanted["bleu_high"], 4)]
    assert found["bootstrap"] == {"resamples": 1000, "seed": 12345, "examples": len(texts)}
    # Outputs that changed are those of the first and the last file.
    changed = found["changed_outputs"]
    assert changed["total"] == len(texts)
    assert changed["unchanged"] == sum(map(str.__eq__, decoded[1], decoded[-1]))
    for row in changed["rows"]:
        place = texts.index(row["reference"])
        assert (row["before"], row["after"]) == (decoded[1][place], decoded[-1][place])
        assert row["source"] == PAIRS[2 * place + 1][0]
    assert sum(row["size_bytes"] for row in found["tensors"]) < stages[-1]["size_bytes"]
    page = (out / "compression.html").read_text(encoding="utf-8")
    assert "Outputs that changed" in page
    assert f"{stages[-1]['size_bytes']:,} bytes" in page
    # Nothing but its own files is there, which --force may replace.
    check_output_directory(out, force=True, owned=(*COMPRESSION_FILES, *LEDGER_FILES))


def test_the_tables_of_the_ledger_fit_a_terminal(run: Compress, home: Path, tmp_path: Path) -> None:
    done = run("--no-finetune", "--reference", home / "model", "--out", tmp_path / "small")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert max(map(len, lines[:-1])) <= 80
    assert "…" not in done.out
    for words in (
        "paired bootstrap against the original", "The reference model", "Bytes of model.lnlp", "vocabulary",
        "Plan: increase of the loss in nats", "Plan by matrix", "further matrices",
    ):  # fmt: skip
        assert words in done.out


def test_a_compression_that_lost_too_much_is_called_so(run: Compress, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "small", "--no-finetune", "--target-size", "6.5KB", "--json")
    assert done.code == 0, done.err
    content = json.loads(done.out)
    before, after = (content["stages"][place]["scores"]["bleu"] for place in (0, -1))
    assert before - after > 3
    # What makes the figures doubtful is said before the work, what was lost after it.
    *doubts, warning = content["warnings"]
    assert [doubt.split(" of ")[0] for doubt in doubts][-1] == "13 examples"
    assert warning.startswith(f"BLEU fell from {before:.2f} to {after:.2f}, most of it in the stage")
    assert "fine-tuning (leave --no-finetune out)" in warning
    assert f"warning: {warning}" in done.message


def test_the_final_file_is_a_model(run: Compress, home: Path, tmp_path: Path) -> None:
    code, output, _ = run("--out", tmp_path / "small", "--no-finetune")
    assert code == 0
    assert "entropy-coded" in output
    for file in ("original.lnlp", "model.lnlp"):
        assert f"{(tmp_path / 'small' / file).stat().st_size:,}" in output
    assert "bits per" in output
    assert max(map(len, output.splitlines()[:-1])) <= 80
    loaded = load_model(str(tmp_path / "small" / "model.lnlp"))
    original = load_model(str(home / "model"))
    assert loaded.config == original.config
    assert loaded.tokenizer.to_json() == original.tokenizer.to_json()
    assert loaded.metrics == {"uncompressed": {"valid": {"loss": 0.1}}}


def test_structured_pruning_lowers_mult_adds(run: Compress, tmp_path: Path) -> None:
    found = run.ledger("--out", tmp_path / "small", "--structured", "0.3", "--finetune-steps", "20")
    stages, structured = found["stages"], found["structured"]
    assert [stage["stage"] for stage in stages[:3]] == ["original", "structured", "pruned"]
    assert structured["macs"] == {"before": stages[0]["macs"], "after": stages[1]["macs"]}
    assert stages[-1]["macs"] == stages[1]["macs"] <= 0.7 * stages[0]["macs"]
    assert 0 < stages[-1]["estimated_ms"] == stages[1]["estimated_ms"] < stages[0]["estimated_ms"]
    assert stages[1]["size_bytes"] < stages[0]["size_bytes"]
    assert structured["removed"]
    config = load_model(str(tmp_path / "small" / "model.lnlp")).config.model
    for removal in structured["removed"]:
        assert removal["after"] < removal["before"]
        assert getattr(config, removal["key"].removeprefix("model.")) == removal["after"]


def test_what_was_removed_is_printed(run: Compress, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "small", "--structured", "0.3", "--no-finetune")
    assert done.code == 0, done.err
    assert "Removed with 3" in done.out
    assert "an output on a Cortex-A72, estimated" in " ".join(done.out.split())
    for line in ("before   after   expected loss", "all, together", "all, as measured before finetuning"):
        assert line in done.out
    assert max(map(len, done.out.splitlines()[:-1])) <= 80
    page = (tmp_path / "small" / "compression.html").read_text(encoding="utf-8")
    section = page.partition('<section id="structured">')[2].partition("</section>")[0]
    removed = json.loads((tmp_path / "small" / "ledger.json").read_text(encoding="utf-8"))["structured"]["removed"]
    assert removed
    assert all(removal["key"] in section for removal in removed)


def test_structured_pruning_of_a_sandwich_keeps_its_two_widths(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    layers = {"num_encoder_layers": 3, "num_decoder_layers": 3, "sharing": "sandwich"}
    widths = {"ffn_dim": 32, "sandwich_dim": 32, "sandwich_ffn_dim": 64}
    write_model(tmp_path / "sandwich", [src for src, _ in PAIRS], family="subformer", **layers, **widths)
    config_file = tmp_path / "sandwich" / "config.toml"
    # Random weights translate at length, which is not what this is about.
    config_file.write_text(config_file.read_text(encoding="utf-8") + "\n[decoding]\nmax_length = 3\n", encoding="utf-8")
    options = ["--structured", "0.2", "--no-finetune", "--out", tmp_path / "small"]
    found = lite_nlp.json("compress", tmp_path / "sandwich", *options)
    assert {"ffn_dim", "sandwich_ffn_dim"} <= {probe["key"] for probe in found["structured"]["probes"]}
    config = load_model(str(tmp_path / "small" / "model.lnlp")).config.model
    after = {removal["key"]: removal["after"] for removal in found["structured"]["removed"]}
    assert (config.ffn_dim, config.sandwich_ffn_dim) == (
        after.get("model.ffn_dim", 32),
        after.get("model.sandwich_ffn_dim", 64),
    )


def test_target_size(run: Compress, tmp_path: Path) -> None:
    stages = run.stages("--out", tmp_path / "small", "--no-finetune", "--target-size", "30KB")
    assert stages[-1]["size_bytes"] <= 30_000


def test_everyday_sentences_are_divided_without_overlap(home: Path) -> None:
    tokenizer = open_sentence_pairs(home / "data").tokenizer
    calibration = everyday_calibration(tokenizer, max_positions=512)
    scanned = {tuple(row) for batch in calibration.scan for row in _source_rows(batch.src_tokens)}
    judged = {tuple(tokenizer.encode(line)) for line in calibration.sources}
    batches = calibration.tuning.endless()
    tuned = {tuple(row) for _ in range(20) for row in _source_rows(next(batches).src_tokens)}
    assert len(judged) >= 150
    assert len(scanned) >= 50
    assert len(tuned) >= 50
    assert not judged & scanned
    assert not judged & tuned
    assert not scanned & tuned


def _source_rows(tokens: Any) -> list[list[int]]:
    """Rows without the end mark and the padding."""
    return [[int(token) for token in row if token > 2] for row in tokens]
