"""``lite-nlp compress`` on language models and classifiers: its scores are those that ``evaluate`` gives its files."""

from pathlib import Path
from typing import Any

import pytest

from lite_nlp.artifacts.models import load_model
from tests.integration.conftest import LiteNlp
from tests.integration.tiny_training import write_files

CONFIG = """
name = "tiny"

[model]
{model}
embed_dim = 32
ffn_dim = 64
max_positions = 64

[training]
batch_tokens = 256
block_tokens = 32
learning_rate = 1e-2
label_smoothing = 0.0
warmup_steps = 5
schedule = "constant"
max_steps = 60
max_tokens = 16
validate_every_steps = 30
checkpoint_every_steps = 30
average_checkpoints = 1
"""
TEXT = 'architecture = "language-model"\nfamily = "transformer"\nnum_decoder_layers = 1\nnum_heads = 2'
ADAPTIVE = f'{TEXT}\nembedding = "adaptive"\nadaptive_cutoffs = [100, 200]\nadaptive_factor = 2'
CLASSES = "num_classes = 7\narchitecture = "
SINGLE = f'{CLASSES}"sequence-classifier"\nfamily = "transformer"\nnum_encoder_layers = 1\nnum_heads = 2'
FACTORS = f'{SINGLE}\nffn_linear = "r2d2"\nlinear_n = 2'
PAIR = f'{CLASSES}"pair-classifier"\nfamily = "r2d2"\nlstm_linear = "r2d2"\nlinear_n = 4'

#: By config: the architecture, and the data that it learns from.
MODELS = {
    "text": (TEXT, "text-data"),
    "adaptive": (ADAPTIVE, "text-data"),
    "single": (SINGLE, "single-data"),
    "factors": (FACTORS, "single-data"),
    "pair": (PAIR, "pair-data"),
}

COLORS = ("red", "green", "blue")
LINES = [f"{'what ' * (number % 4)}is number {number}?" for number in range(400)]
SINGLES = [(COLORS[i % 3], f"number {i} is {COLORS[i % 3]}" + " indeed" * (i % 4)) for i in range(150)]
PAIRS = [
    ("same" if i % 2 else "other", f"the {COLORS[i % 3]} one, {i}", f"a {COLORS[(i + 1 + i % 2 * 2) % 3]} one, {i}")
    for i in range(120)
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compress-tasks")
    write_files(path)
    (path / "text.txt").write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    for name, rows in (("single", SINGLES), ("pair", PAIRS)):
        (path / f"{name}.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    for name, (model, _) in MODELS.items():
        (path / f"{name}.toml").write_text(CONFIG.format(model=model), encoding="utf-8")
    return path


class Compress:
    """Runs ``lite-nlp compress`` where the files are; data and models are made when they are first needed."""

    def __init__(self, lite_nlp: LiteNlp) -> None:
        self.lite_nlp = lite_nlp

    def model(self, name: str) -> str:
        """A trained model, and the data directory it was trained on."""
        data = MODELS[name][1]
        if not Path(data).exists():
            kind = data.removesuffix("-data")
            source = ("--text", "text.txt") if kind == "text" else ("--labelled", f"{kind}.tsv")
            held_out = () if kind == "text" else ("--valid-pairs", "20", "--test-pairs", "8")
            self._make("data", "prepare", *source, *held_out, "--vocab-size", "320", "--out", data)
        if not Path(name).exists():
            self._make("train", f"{name}.toml", "--data", data, "--out", name)
        return name

    def __call__(self, name: str, *words: str | Path) -> dict[str, Any]:
        return self.lite_nlp.json("compress", self.model(name), "--data", MODELS[name][1], *words)

    def evaluate(self, name: str, file: Path) -> dict[str, Any]:
        """The scores of a file on what the ledger is judged by."""
        found = self.lite_nlp.json("evaluate", file, "--data", MODELS[name][1], "--split", "valid")
        scores: dict[str, Any] = found["scores"]
        return scores

    def _make(self, *words: str) -> None:
        done = self.lite_nlp(*words)
        assert done.code == 0, done.err


@pytest.fixture
def compress(lite_nlp: LiteNlp, files: Path, monkeypatch: pytest.MonkeyPatch) -> Compress:
    monkeypatch.chdir(files)
    return Compress(lite_nlp)


@pytest.mark.parametrize(
    ("name", "metric"),
    [("text", "perplexity"), ("adaptive", "perplexity"), ("single", "accuracy"), ("pair", "accuracy")],
)
def test_every_score_is_what_evaluate_says_of_the_file(
    compress: Compress, tmp_path: Path, name: str, metric: str
) -> None:
    out = tmp_path / "small"
    found = compress(name, "--out", out, "--finetune-steps", "10")
    assert found["metric"] == metric
    stages = found["stages"]
    found_stages = [stage["stage"] for stage in stages if stage["stage"] != "finetuned"]
    assert found_stages == ["original", "pruned", "kmeans", "entropy-coded"]
    assert stages[-1]["file"] == "model.lnlp"
    assert stages[-1]["ratio"] > 2
    assert stages[-1]["scores"] == stages[-2]["scores"]
    for stage in (stages[0], stages[1], stages[-1]):
        scores = compress.evaluate(name, out / stage["file"])
        # The ledger has two or four decimals.
        assert stage["scores"][metric] == pytest.approx(scores[metric], abs=6e-3 if metric == "accuracy" else 6e-5)
    trained = compress.evaluate(name, Path(name))
    assert stages[0]["scores"][metric] == pytest.approx(trained[metric], abs=6e-3)
    check_tests(found, metric)
    # Not the same by failing alike: what was learned is there.
    if metric == "accuracy":
        assert stages[-1]["scores"]["accuracy"] > trained["majority"] + 10
    else:
        assert stages[-1]["scores"]["perplexity"] < 30
        assert stages[-1]["scores"]["perplexity"] != stages[0]["scores"]["perplexity"]


def check_tests(found: dict[str, Any], metric: str) -> None:
    """Every stage has the interval of its score, and all but the first a paired test against that."""
    first, *others = found["stages"]
    for stage in found["stages"]:
        low, high = stage["intervals"][metric]
        assert low <= stage["scores"][metric] <= high
    for stage in others:
        change = stage["against_original"][metric]
        assert change["difference"] == pytest.approx(stage["scores"][metric] - first["scores"][metric], abs=0.02)
        assert change["low"] <= change["difference"] <= change["high"]
    # Windows of a text have no outputs; labels are outputs.
    changed = found["changed_outputs"]
    if metric == "perplexity":
        assert changed is None
        return
    assert changed["total"] == found["bootstrap"]["examples"] == 20
    points = 100 / changed["total"] * (changed["better"] - changed["worse"])
    assert others[-1]["against_original"]["accuracy"]["difference"] == pytest.approx(points, abs=1e-3)
    assert all(row["before"] != row["after"] for row in changed["rows"])


def test_a_reference_is_scored_on_the_same_examples(compress: Compress, tmp_path: Path) -> None:
    compress.model("factors")
    options = ("--no-finetune", "--reference", "factors", "--out", tmp_path / "small")
    reference = compress("single", *options)["reference"]
    assert reference["scores"]["accuracy"] == pytest.approx(
        compress.evaluate("factors", Path("factors"))["accuracy"], abs=6e-3
    )
    compress.model("adaptive")
    found = compress("text", "--no-finetune", "--reference", "adaptive", "--out", tmp_path / "text")
    wanted = compress.evaluate("adaptive", Path("adaptive"))["perplexity"]
    assert found["reference"]["scores"]["perplexity"] == pytest.approx(wanted, abs=6e-5)
    change = found["stages"][0]["against_reference"]["perplexity"]
    original = found["stages"][0]["scores"]["perplexity"]
    assert change["difference"] == pytest.approx(original - wanted, abs=1e-3)
    done = compress.lite_nlp(
        "compress", "single", "--data", "single-data", "--reference", "text", "--out", tmp_path / "none"
    )
    assert done.code == 2
    assert "--reference text: expected a model of the same task" in done.message


def test_the_file_of_a_language_model_is_a_model(compress: Compress, tmp_path: Path) -> None:
    compress("text", "--out", tmp_path / "small", "--no-finetune")
    file = tmp_path / "small" / "model.lnlp"
    assert load_model(str(file)).config == load_model("text").config
    assert compress.lite_nlp.json("budget", file)["macs"] == compress.lite_nlp.json("budget", "text")["macs"]
    done = compress.lite_nlp("convert", "t2r", file, "--feature-size", "4", "--out", tmp_path / "linear")
    assert done.code == 0, done.err
    assert compress.evaluate("text", tmp_path / "linear")["perplexity"] > 1


def test_the_file_of_a_classifier_knows_its_labels(compress: Compress, tmp_path: Path) -> None:
    compress("single", "--out", tmp_path / "small", "--no-finetune")
    file = tmp_path / "small" / "model.lnlp"
    metrics = load_model(str(file)).metrics
    assert metrics["labels"] == sorted(COLORS)
    # Its scores are those from before compression.
    assert set(metrics) == {"labels", "uncompressed"}
    assert metrics["uncompressed"] == load_model("single").metrics
    # And so does what is made of it once more.
    compress.lite_nlp.json("compress", file, "--data", "single-data", "--no-finetune", "--out", tmp_path / "again")
    assert load_model(str(tmp_path / "again" / "model.lnlp")).metrics == metrics


@pytest.mark.parametrize(("name", "metric"), [("text", "perplexity"), ("single", "accuracy")])
def test_the_table_is_titled_by_the_metric(
    compress: Compress, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, metric: str
) -> None:
    data = MODELS[compress.model(name)][1]
    monkeypatch.setenv("COLUMNS", "80")
    done = compress.lite_nlp("compress", name, "--data", data, "--no-finetune", "--out", tmp_path / "small")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert f"{name}, {metric} on {data} valid" in done.out
    assert any(line.split()[-1] == metric for line in lines[1:5] if line.split())
    assert "BLEU" not in done.out
    assert max(map(len, lines[:-1])) <= 80


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("text", {"model.ffn_dim", "model.num_heads"}),
        ("factors", {"model.ffn_dim", "model.num_heads"}),
        ("pair", {"model.ffn_dim", "model.embed_dim", "model.embedding_dim"}),
    ],
)
def test_structured_pruning_lowers_mult_adds(compress: Compress, tmp_path: Path, name: str, keys: set[str]) -> None:
    out = tmp_path / "small"
    found = compress(name, "--structured", "0.25", "--finetune-steps", "5", "--out", out)
    stages, structured = found["stages"], found["structured"]
    assert [stage["stage"] for stage in stages[:3]] == ["original", "structured", "pruned"]
    macs = {"before": stages[0]["macs"], "after": stages[1]["macs"]}
    assert structured["macs"] == macs
    assert macs["after"] <= 0.75 * macs["before"]
    assert stages[1]["size_bytes"] < stages[0]["size_bytes"]
    assert {probe["key"] for probe in structured["probes"]} == {key.removeprefix("model.") for key in keys}
    before, after = load_model(name).config.model, load_model(str(out / "model.lnlp")).config.model
    for removal in structured["removed"]:
        assert removal["key"] in keys
        key = removal["key"].removeprefix("model.")
        assert (removal["before"], removal["after"]) == (getattr(before, key) or before.table_dim, getattr(after, key))
    compress.evaluate(name, out / "model.lnlp")


@pytest.mark.parametrize(
    ("name", "task", "metric", "curve"),
    [
        ("text", "language-modelling", "perplexity", "Validation perplexity"),
        ("pair", "classification", "accuracy", "Validation perplexity"),
    ],
)
def test_the_report_of_other_tasks_scores_the_split(
    compress: Compress, tmp_path: Path, name: str, task: str, metric: str, curve: str
) -> None:
    model, page = compress.model(name), tmp_path / "page.html"
    words = ("report", model, "--data", MODELS[name][1], "--split", "valid", "--samples", "4", "--html", page)
    found = compress.lite_nlp.json(*words)
    assert found["card"]["task"] == task
    (measured,) = (scores for key, scores in found["scores"].items() if "measured for this report" in key)
    assert measured[metric] == compress.evaluate(name, Path(model))[metric]
    content = page.read_text(encoding="utf-8")
    assert curve in content
    assert f"{measured[metric]:.2f}" in content
    if task == "language-modelling":
        assert found["examples"] is None
        return
    rows = found["examples"]["rows"]
    assert len(rows) == 4
    # Both sentences of a pair, as they were prepared.
    assert all(" / " in row["source"] and row["source"].startswith("the ") for row in rows)
    assert all((row["score"] == 100.0) == (row["output"] == row["reference"]) for row in rows)
    assert '<section id="examples"' in content


def test_largest_loss_is_in_perplexity(compress: Compress, tmp_path: Path) -> None:
    stages = compress("text", "--no-finetune", "--max-loss", "0.02", "--out", tmp_path / "small")["stages"]
    assert stages[-1]["scores"]["perplexity"] - stages[0]["scores"]["perplexity"] <= 0.02
    # So few bits that it costs a lot, whatever the training came to.
    words = ("--no-finetune", "--target-size", "4KB", "--max-loss", "0", "--out", tmp_path / "smaller")
    done = compress.lite_nlp("compress", "text", "--data", "text-data", *words)
    assert done.code == 1
    assert "with a loss of at most 0.0 in perplexity; the smallest loss reached is" in done.message
    assert not (tmp_path / "smaller").exists()


@pytest.mark.parametrize(
    ("name", "words", "code", "message"),
    [
        ("text", (), 2, "a language model is compressed, and scored in int8, on running text: --data is required"),
        ("pair", (), 2, "a classifier is compressed, and scored in int8, on labelled examples: --data is required"),
        ("text", ("--data", "data"), 1, "expected a data directory of running text, found one of sentence pairs"),
        (
            "single",
            ("--data", "data"),
            1,
            "expected a data directory of labelled examples, found one of sent",
        ),
        ("single", ("--data", "pair-data"), 1, "expected labels that the model knows (blue, green, red)"),
        (
            "pair",
            ("--data", "pair-data", "--structured", "0.999"),
            1,
            "pair: structured pruning: expected to remove 99.9% of ",
        ),
        (
            "factors",
            ("--data", "single-data", "--structured", "0.9"),
            1,
            "can go, with feed-forward channels 64 -> 8, heads of self-attention 2 -> 1; what else it has depends on",
        ),
        ("single", ("--data", "single-data", "--max-params", "100"), 3, "over budget"),
    ],
)
def test_what_is_refused(
    compress: Compress, tmp_path: Path, name: str, words: tuple[str, ...], code: int, message: str
) -> None:
    for model in {name, "pair"}:
        compress.model(model)
    done = compress.lite_nlp("compress", name, *words, "--out", tmp_path / "small")
    assert done.code == code, done.err
    assert message in done.message
    assert not (tmp_path / "small").exists()


def test_only_models_that_write_text_are_tuned_on_their_own(compress: Compress, tmp_path: Path) -> None:
    words = ("compress", compress.model("single"), "--data", MODELS["single"][1], "--own-outputs")
    code, _, errors = compress.lite_nlp(*words, "--out", tmp_path / "small")
    assert code == 2
    assert "--own-outputs: expected a model that writes text" in errors
    assert "found 'sequence-classifier'" in errors
    assert list(tmp_path.iterdir()) == []
