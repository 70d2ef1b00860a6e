"""``lite-nlp compress`` on a model small enough to train here until it knows its few sentences by heart."""

import errno
import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from lite_nlp import prepare_data, report_model
from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.artifacts.models import load_model
from lite_nlp.compress.compressed import LEDGER_FILES
from lite_nlp.compress.pipeline import COMPRESSION_FILES
from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.outputs import check_output_directory
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.pairs.batches import collate
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from lite_nlp.tasks.translation.bleu import score_translations
from lite_nlp.tasks.translation.calibration import everyday_calibration
from lite_nlp.tasks.translation.evaluate import translate_all
from tests.integration.conftest import Done, LiteNlp, write_model

PAIRS = [
    (f"{subject[0]} {verb[0]} {thing[0]}.", f"{subject[1]} {verb[1]} {thing[1]}.")
    for subject, verb, thing in itertools.product(
        [("The boy", "Der Junge"), ("A woman", "Eine Frau"), ("My brother", "Mein Bruder")],
        [("sees", "sieht"), ("buys", "kauft"), ("likes", "mag")],
        [("the red house", "das rote Haus"), ("two dogs", "zwei Hunde"), ("a new coat", "einen neuen Mantel")],
    )
]


def _train(model: EncoderDecoder, tokenizer: Tokenizer) -> None:
    batch = collate([tokenizer.encode(src) for src, _ in PAIRS], [tokenizer.encode(tgt) for _, tgt in PAIRS])
    inputs = [torch.from_numpy(array) for array in (batch.src_tokens, batch.src_mask, batch.tgt_tokens)]
    labels = torch.from_numpy(batch.labels).flatten()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(80):
        optimizer.zero_grad()
        F.cross_entropy(model(*inputs).flatten(0, 1), labels, ignore_index=PAD_ID).backward()
        optimizer.step()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a data directory and a model trained on it."""
    path = tmp_path_factory.mktemp("compress")
    for side, name in enumerate(("en.txt", "de.txt")):
        (path / name).write_text("".join(pair[side] + "\n" for pair in PAIRS), encoding="utf-8")
    texts = (path / "en.txt", path / "de.txt")
    prepare_data(path / "data", train=texts, valid=texts, src_lang="en", tgt_lang="de", vocab_size=300)
    tokenizer = open_sentence_pairs(path / "data").tokenizer
    config = EncoderDecoderConfig(
        family="lite-transformer",
        src_vocab_size=tokenizer.vocab_size,
        tgt_vocab_size=tokenizer.vocab_size,
        embed_dim=64,
        ffn_dim=64,
        num_encoder_layers=1,
        num_decoder_layers=1,
        kernel_sizes=(3,),
        decoder_kernel_sizes=(3,),
        dropout=0.0,
    )
    torch.manual_seed(1)
    model = build_model(config)
    _train(model, tokenizer)
    save_model_directory(
        path / "model",
        config=Config(name="by-heart", model=config),
        state=model.state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={"valid": {"loss": 0.1}},
    )
    return path


class Compress:
    """Runs ``lite-nlp compress`` on the model, with its data."""

    def __init__(self, lite_nlp: LiteNlp, home: Path) -> None:
        self._lite_nlp = lite_nlp
        self._words: list[str | Path] = ["compress", home / "model", "--data", home / "data"]

    def __call__(self, *words: str | Path) -> Done:
        return self._lite_nlp(*self._words, *words)

    def ledger(self, *words: str | Path) -> dict[str, Any]:
        return self._lite_nlp.json(*self._words, *words)

    def stages(self, *words: str | Path) -> list[dict[str, Any]]:
        stages: list[dict[str, Any]] = self.ledger(*words)["stages"]
        return stages


@pytest.fixture
def run(lite_nlp: LiteNlp, home: Path, monkeypatch: pytest.MonkeyPatch) -> Compress:
    # A usual terminal, to see that the table fits it.
    monkeypatch.setenv("COLUMNS", "80")
    return Compress(lite_nlp, home)


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


def test_a_reference_that_does_not_fit_is_refused(run: Compress, home: Path, tmp_path: Path) -> None:
    tokenizer = open_sentence_pairs(home / "data").tokenizer
    config = LanguageModelConfig(
        family="transformer", tgt_vocab_size=tokenizer.vocab_size, embed_dim=16, ffn_dim=16, num_decoder_layers=1
    )
    save_model_directory(
        tmp_path / "language",
        config=Config(name="language", model=config),
        state=build_model(config).state_dict(),
        tokenizer_json=tokenizer.to_json(),
        metrics={},
    )
    done = run("--no-finetune", "--reference", tmp_path / "language", "--out", tmp_path / "small")
    assert done.code == 2
    assert "--reference language: expected a model of the same task: language: expected an encoder" in done.message
    done = run("--no-finetune", "--reference", tmp_path / "nowhere", "--out", tmp_path / "small")
    assert done.code == 1
    assert "nowhere: expected a model directory" in done.message
    assert not (tmp_path / "small").exists()


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--target-size", "1KB"),
            "model: cannot be compressed to 1,000 bytes: without any of its matrices the file has",
        ),
        (("--target-ratio", "1000"), "no smaller dimension that was tried would fit"),
        (("--target-size", "7KB", "--max-loss", "0"), "with a loss of at most 0.0 BLEU; the smallest loss reached"),
    ],
)
def test_what_cannot_be_reached(run: Compress, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    code, output, errors = run("--out", tmp_path / "small", "--no-finetune", *options)
    assert code == 1
    assert output == ""
    assert message in errors.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--target-size", "small"), "expected a size such as 570KB"),
        (("--target-ratio", "1"), "expected more than 1"),
        (("--structured", "1"), "expected a fraction between 0 and 1"),
        (("--no-finetune", "--finetune-steps", "5"), "expected one of them"),
        (("--no-finetune", "--own-outputs"), "expected one of them"),
        (("--no-finetune", "--effort", "quick"), "--no-finetune and --effort: expected one of them"),
        (
            ("--finetune-steps", "5", "--cycles", "6"),
            "--cycles: expected at most the number of finetuning steps, 5, found 6",
        ),
        (("--effort", "quick", "--finetune-steps", "5"), "--effort and --finetune-steps: expected one of them"),
        (("--max-loss", "-1"), "should be greater than or equal to 0"),
    ],
)
def test_wrong_usage(run: Compress, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    done = run("--out", tmp_path / "small", *options)
    assert done.code == 2
    assert message in done.message
    assert list(tmp_path.iterdir()) == []


def test_a_target_out_of_reach_says_what_would_reach_it(run: Compress, tmp_path: Path) -> None:
    done = run("--out", tmp_path / "small", "--no-finetune", "--target-size", "4KB")
    assert done.code == 1
    found = re.search(
        r"model: cannot be compressed to 4,000 bytes; the smallest file, with every matrix as coarse as it can be, has "
        r"(?P<size>[\d,]+) bytes, (?P<more>[\d,]+) too many, 1\.\d\d times the target: matrices",
        done.message,
    )
    assert found is not None, done.message
    size, more = (int(found[key].replace(",", "")) for key in ("size", "more"))
    assert size - more == 4000
    assert "at 3 bits for each weight, a comfortable rate" in done.message
    assert re.search(r"embed_dim 64 -> \d+.* parameters, about (3,\d{3}|4,000) bytes", done.message)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_output_is_kept(run: Compress, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine", encoding="utf-8")
    code, _, errors = run("--out", tmp_path)
    assert code == 1
    assert "output exists already" in errors
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_full_disk_midway_leaves_nothing(run: Compress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = Path.write_bytes

    def full(self: Path, content: bytes) -> int:
        if "kmeans" in self.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    code, _, errors = run("--out", tmp_path / "small", "--no-finetune")
    assert code == 1
    assert "No space left on device" in errors
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89LNLP", "truncated: expected at least 24 bytes, found 5"),
        (b"PK", "not a container: expected the first bytes"),
        (None, "expected a model directory, a .lnlp file"),
    ],
)
def test_a_damaged_or_missing_model_is_named(
    lite_nlp: LiteNlp, tmp_path: Path, content: bytes | None, message: str
) -> None:
    damaged = tmp_path / "damaged.lnlp"
    if content is not None:
        damaged.write_bytes(content)
    code, _, errors = lite_nlp("compress", damaged, "--out", tmp_path / "small")
    assert code == 1
    assert "damaged.lnlp" in errors
    assert message in errors
    assert not (tmp_path / "small").exists()


def test_data_of_another_vocabulary_is_refused(run: Compress, home: Path, tmp_path: Path) -> None:
    texts = (home / "en.txt", home / "de.txt")
    prepare_data(tmp_path / "other", train=texts, valid=texts, src_lang="en", tgt_lang="de", vocab_size=280)
    code, _, errors = run("--out", tmp_path / "small", "--data", tmp_path / "other")
    assert code == 1
    assert "expected data tokenized with the model's own tokenizer" in errors.replace("\n", " ")


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
