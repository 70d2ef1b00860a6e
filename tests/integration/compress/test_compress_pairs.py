"""``lite-nlp compress`` on encoder-decoders: its scores are those that ``evaluate`` gives its files."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.api.compression_subject import guide_compression
from lite_nlp.artifacts.models import load_model
from lite_nlp.artifacts.translators import open_translator
from lite_nlp.core.progress import SilentProgress
from lite_nlp.data.pairs.corpus import PairCorpus
from lite_nlp.data.pairs.prepare import prepare_pairs
from lite_nlp.data.pairs.readers import TextFiles
from lite_nlp.data.vocabulary import VocabularyOptions
from lite_nlp.tasks.translation.calibration import data_calibration
from tests.integration.conftest import LiteNlp, write_model

SOURCES = [f"{'the old town by the sea ' * (1 + number % 5)}has {number} boats" for number in range(24)]

#: Each key changes what a search gives: what is judged without them would score otherwise.
DECODING = """
[decoding]
no_repeat_ngram = 1
min_length = 4
max_length = 7
long_input = "truncate"
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory for each task, and a model of random weights whose config says how to search."""
    path = tmp_path_factory.mktemp("compress-pairs")
    write_model(path / "model", SOURCES, family="transformer", max_positions=64)
    config = path / "model" / "config.toml"
    config.write_text(config.read_text().replace("max_tokens = 256", "max_tokens = 12") + DECODING)
    # Its own translations are the references: random weights would score 0 otherwise.
    with open_translator(path / "model", warn=lambda _: None) as translator:
        targets = translator.translate(SOURCES)
    for name, lines in (("src", SOURCES), ("tgt", targets)):
        (path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    texts = [TextFiles(path / "src", path / "tgt", check_ratio=False)]
    tokenizer = load_model(path / "model").tokenizer
    for task in ("translation", "summarization"):
        corpus = PairCorpus(splits={"train": texts, "valid": texts}, languages=("a", "b"), task=task)
        prepare_pairs(path / task, corpus, vocabulary=VocabularyOptions(tokenizer=tokenizer))
    return path


@pytest.mark.parametrize(
    ("task", "metric", "scores"),
    [
        ("translation", "bleu", ("bleu", "chrf")),
        ("summarization", "rouge", ("rouge1", "rouge2", "rougeL", "rougeLsum")),
    ],
)
def test_every_score_is_what_evaluate_says_of_the_file(
    lite_nlp: LiteNlp, files: Path, tmp_path: Path, task: str, metric: str, scores: tuple[str, ...]
) -> None:
    out = tmp_path / "small"
    found = lite_nlp.json("compress", files / "model", "--data", files / task, "--no-finetune", "--out", out)
    assert found["metric"] == {"bleu": "bleu", "rouge": "rougeLsum"}[metric]
    loaded = load_model(files / "model")
    judged = data_calibration(files / task, loaded.tokenizer, loaded.config)
    for name, lines in (("src", judged.sources), ("tgt", judged.references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    words = ("--input", tmp_path / "src", "--reference", tmp_path / "tgt", "--metric", metric)
    for stage in (found["stages"][0], found["stages"][-1]):
        wanted: dict[str, Any] = lite_nlp.json("evaluate", out / stage["file"], *words)["scores"]
        for name in scores:
            # The ledger has two decimals.
            assert stage["scores"][name] == round(wanted[name], 2)
    assert max(found["stages"][0]["scores"][name] for name in scores) > 50
    # The search of the command line's defaults would score otherwise, so the section was heeded.
    free = ("--no-repeat-ngram", "0", "--min-length", "0", "--max-length", "0", "--long-input", "split")
    other = lite_nlp.json("evaluate", out / found["stages"][-1]["file"], *words, *free)["scores"]
    assert any(found["stages"][-1]["scores"][name] != round(other[name], 2) for name in scores)


def test_finetuning_on_own_outputs_reads_the_translations_of_the_model(files: Path) -> None:
    loaded = load_model(files / "model")
    say = guide_compression(loaded, None).own_outputs
    assert say is not None
    batches = say(2, lambda name, make: make(), SilentProgress())
    with open_translator(files / "model", warn=lambda _: None) as translator:
        for batch in islice(batches(), 2):
            sources, said = (
                [[number for number in row if number > 2] for row in side.tolist()]
                for side in (batch.src_tokens, batch.labels)
            )
            translations = translator.translate([loaded.tokenizer.decode(source) for source in sources])
            assert said == loaded.tokenizer.encode_batch(translations)


@pytest.mark.parametrize("task", ["translation", "summarization"])
def test_compression_on_own_outputs(lite_nlp: LiteNlp, files: Path, tmp_path: Path, task: str) -> None:
    options = ("--own-outputs", "--finetune-steps", "2", "--out", tmp_path / "small")
    code, _, errors = lite_nlp("compress", files / "model", "--data", files / task, *options)
    assert code == 0, errors
    assert "translating what is tuned on: 24 in" in errors
    assert load_model(tmp_path / "small" / "model.lnlp").name == "model"
    # A target that is refused takes no translations.
    options = (*options[:-1], tmp_path / "smaller", "--target-size", "1KB")
    code, _, errors = lite_nlp("compress", files / "model", "--data", files / task, *options)
    assert (code, "translating what is tuned on" in errors) == (1, False), errors
