from pathlib import Path

import pytest

from lite_nlp import prepare_data
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import Config, TrainingConfig
from lite_nlp.core.errors import DataError
from lite_nlp.data.pairs.directory import PairDirectory, open_sentence_pairs
from lite_nlp.tasks.translation.calibration import data_calibration, everyday_calibration

ARTICLES = ["once upon a time in a small town by the sea " * (10 + number) for number in range(12)]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PairDirectory:
    """Twelve articles of more than a hundred tokens, with their summaries."""
    path: Path = tmp_path_factory.mktemp("calibration")
    (path / "src").write_text("\n".join(ARTICLES))
    (path / "tgt").write_text("\n".join(f"town {number}" for number in range(12)))
    texts = (path / "src", path / "tgt")
    prepare_data(path / "data", train=texts, valid=texts, task="summarization", vocab_size=262)
    directory = open_sentence_pairs(path / "data")
    assert directory.split("train").src_lengths.min() > 128
    return directory


def config(data: PairDirectory, *, max_positions: int = 512, **training: object) -> Config:
    size = data.tokenizer.vocab_size
    widths = {"embed_dim": 16, "ffn_dim": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}
    vocabulary = {"src_vocab_size": size, "tgt_vocab_size": size}
    model = EncoderDecoderConfig(family="transformer", max_positions=max_positions, **vocabulary, **widths)
    return Config(name="tiny", model=model, training=TrainingConfig.model_validate(training))


def test_articles_are_cut_where_the_model_was_trained_on_cut_ones(data: PairDirectory) -> None:
    found = data_calibration(data.path, data.tokenizer, config(data, truncate=True, max_tokens=20))
    # 20 tokens and the end mark.
    assert {batch.src_tokens.shape[1] for batch in [*found.scan, next(found.tuning.endless())]} == {21}
    assert set(found.sources) <= {article.strip() for article in ARTICLES}


def test_nothing_is_scanned_beyond_the_positions_of_the_model(data: PairDirectory) -> None:
    whole = data_calibration(data.path, data.tokenizer, config(data, truncate=True, max_tokens=400, max_positions=64))
    assert {batch.src_tokens.shape[1] for batch in whole.scan} == {64}


def test_everyday_sentences_are_cut_where_the_positions_of_the_model_end(data: PairDirectory) -> None:
    found = everyday_calibration(data.tokenizer, max_positions=20)
    batches = [*found.scan, next(found.tuning.endless())]
    sides = {side.shape[1] for batch in batches for side in (batch.src_tokens, batch.tgt_tokens)}
    assert max(sides) == 20
    assert found.longest == 19
    # Those that are scored are translated in pieces.
    assert max(len(data.tokenizer.encode(source)) for source in found.sources) > 20


def test_without_short_pairs_there_is_nothing_to_tune_on(data: PairDirectory) -> None:
    with pytest.raises(DataError, match="expected training pairs of at most 128 tokens a side to tune on, found none"):
        data_calibration(data.path, data.tokenizer, config(data))
