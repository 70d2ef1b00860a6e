"""The shipped models: within their limits, useful, and the same from torch, ONNX Runtime and ExecuTorch."""

from pathlib import Path

import pytest

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.artifacts.models import DEFAULT_MODEL, LoadedModel, ShippedModel, list_shipped, load_model
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.decoding.search import SearchOptions
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export.parity import Reference, compare_engines
from lite_nlp.export.runtime import Bundle, create_engine
from lite_nlp.export.runtime.recipes import SinusoidPart, read_recipes
from tests.integration.conftest import TORCH, LiteNlp, run_process

#: Longest joined line, in tokens; the bundle was exported for 256.
LONGEST = 250

#: For lowercased, tokenized text.
MULTI30K = "multi30k-en-de"


@pytest.fixture(scope="module", params=list_shipped(), ids=lambda model: model.name)
def listed(request: pytest.FixtureRequest) -> ShippedModel:
    """Each of the models."""
    model: ShippedModel = request.param
    return model


@pytest.fixture(scope="module")
def shipped(listed: ShippedModel) -> LoadedModel:
    """The model with the weights that torch reads from the bundle."""
    return load_model(listed.name)


@pytest.fixture(scope="module")
def bundle(listed: ShippedModel) -> Bundle:
    return open_any_bundle(listed.path)


@pytest.fixture(scope="module")
def rows(shipped: LoadedModel, listed: ShippedModel) -> list[list[int]]:
    """400 sentences one by one, then joined to lines of every length up to the longest that the bundle takes."""
    column = ("en", "de").index(listed.card["languages"]["src"])
    pairs = listed.path.with_name("everyday.en-de.tsv").read_text(encoding="utf-8").splitlines()
    single = [shipped.tokenizer.encode(pair.split("\t")[column]) for pair in pairs]
    joined: list[list[int]] = []
    for row in single[:60]:
        longer = [*joined[-1], *row] if joined else row
        joined.append(longer if len(longer) <= LONGEST else row)
    return single + joined


def test_there_is_one_of_each_direction_and_the_small_one_of_multi30k() -> None:
    directions = {model.name: tuple(model.card["languages"].values()) for model in list_shipped()}
    assert directions == {DEFAULT_MODEL: ("en", "de"), MULTI30K: ("en", "de"), "tatoeba-de-en": ("de", "en")}


def test_it_is_small_and_within_the_budget(listed: ShippedModel, lite_nlp: LiteNlp) -> None:
    assert listed.path.stat().st_size <= 2_500_000
    assert lite_nlp("budget", listed.name, "--check", "--max-size", "2.5MB").code == 0


@pytest.mark.parametrize("runtime", ["onnx", "executorch"])
@pytest.mark.parametrize("every", [7, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_sentences_of_all_lengths_give_the_same_tokens(
    shipped: LoadedModel, bundle: Bundle, rows: list[list[int]], runtime: str, every: int
) -> None:
    """Every seventh of a few hundred, the longest among them; in ``make test-all`` all."""
    longest = max(rows, key=len)
    assert len(longest) > 200
    rows = [longest, *rows[::every]]
    engine = create_engine(bundle, runtime=runtime, threads=1)
    reference = TorchStepModel(shipped.encoder_decoder)
    report = compare_engines(Reference(reference, rows), engine, SearchOptions(max_steps=100))
    assert report.disagreements == ()


def test_the_bundle_is_counted_like_the_model(lite_nlp: LiteNlp, shipped: LoadedModel, bundle: Bundle) -> None:
    of_bundle = lite_nlp.json("budget", bundle.path)
    graphs = of_bundle["macs"]["graphs"]
    assert graphs["torch"] == graphs["onnx"] == graphs["executorch"]
    # Beyond the method, the graphs multiply empty cache slots and the zeros of a band matrix.
    assert graphs["torch"] > of_bundle["macs"]["executed"]
    count = count_config(shipped.config.model, src_len=30, tgt_len=30)
    assert of_bundle["macs"]["paper"] == count.macs_paper
    assert of_bundle["params"]["total"] == sum(parameter.numel() for parameter in shipped.model.parameters())
    assert of_bundle["size_bytes"] == bundle.path.stat().st_size


def test_both_runtimes_have_the_table_of_positions_which_is_in_no_container(
    shipped: LoadedModel, bundle: Bundle
) -> None:
    config = shipped.encoder_decoder.config
    packed = bundle.manifest.packed
    assert packed is not None
    recipes = read_recipes(packed, bundle.read(packed.recipes.file), source="recipes")
    for name in ("weights.bin", "model.pte"):
        [table] = [part.sinusoid for part in recipes.parts[name] if isinstance(part, SinusoidPart)]
        assert (table.rows, table.columns) == (config.max_positions, config.embed_dim)


def test_the_bundle_says_what_the_card_says(shipped: LoadedModel, listed: ShippedModel, bundle: Bundle) -> None:
    assert bundle.manifest.languages is not None
    assert bundle.manifest.languages.model_dump() == listed.card["languages"] == shipped.metrics["languages"]
    assert bundle.manifest.scores == listed.card["scores"]
    if listed.name != MULTI30K:
        assert listed.card["first_inputs"]["right"] >= 40


def test_the_file_of_the_small_one_is_what_its_card_says(lite_nlp: LiteNlp) -> None:
    [card] = [model.card for model in list_shipped() if model.name == MULTI30K]
    bundle = open_any_bundle(next(model.path for model in list_shipped() if model.name == MULTI30K))
    # The file of the compression has the config too, which the bundle keeps beside the weights.
    assert bundle.manifest.files["weights.lnlp"].size_bytes < card["file_bytes"] <= 570_000
    text = "a man in a blue shirt is standing on a ladder cleaning a window ."
    done = lite_nlp("translate", MULTI30K, "--beam", "5", "--text", text)
    assert done.out.startswith("ein mann in einem blauen ")
    assert "leiter" in done.out


def test_it_translates_without_torch(tmp_path: Path, lite_nlp: LiteNlp) -> None:
    source = tmp_path / "source.txt"
    source.write_text("Where is the book?\nGood morning!\nThe old man is waiting for the bus.\n", encoding="utf-8")
    blocked = run_process("translate", "--input", str(source), missing=TORCH)
    assert blocked.returncode == 0, blocked.stderr
    assert blocked.stdout.startswith("Wo ist das Buch?\n")
    with_torch = lite_nlp("translate", "--input", source, "--runtime", "torch")
    assert (with_torch.code, with_torch.out) == (0, blocked.stdout)
    named = run_process("translate", DEFAULT_MODEL, "--input", str(source), missing=TORCH)
    assert named.stdout == blocked.stdout


def test_whatever_the_line_one_line_comes_out(lite_nlp: LiteNlp, tmp_path: Path) -> None:
    lines = ["Good morning!", "", "   ", "Где находится вокзал?", "word " * 10_000, "🎉🎉 \u0000 tab\there", "Thanks."]
    source = tmp_path / "lines.txt"
    source.write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = lite_nlp("translate", "--input", source)
    assert done.code == 0, done.err
    translated = done.out.split("\n")[:-1]
    assert len(translated) == len(lines)
    assert translated[1] == translated[2] == ""
    assert "line 4" in done.message
    assert "line 5" in done.message
