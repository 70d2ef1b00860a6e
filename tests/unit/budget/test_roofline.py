"""The roofline of a search: its work, worked out by hand, and which limit binds."""

import pytest

from lite_nlp.api.estimate import estimate_speed
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.closed_form.roofline import PROCESSORS, Estimate, Processor, find_processor, least_ms, search_work
from lite_nlp.config.model import EncoderDecoderConfig, LanguageModelConfig, SequenceClassifierConfig
from lite_nlp.core.errors import UsageError

WIDTH, INNER, TYPES, LAYERS = 16, 24, 50, 2
MODEL = EncoderDecoderConfig(
    family="transformer",
    src_vocab_size=TYPES,
    tgt_vocab_size=TYPES,
    embed_dim=WIDTH,
    ffn_dim=INNER,
    num_heads=2,
    num_encoder_layers=LAYERS,
    num_decoder_layers=LAYERS,
)
CLASSIFIER = SequenceClassifierConfig(
    family="transformer",
    src_vocab_size=TYPES,
    embed_dim=WIDTH,
    ffn_dim=INNER,
    num_heads=2,
    num_encoder_layers=1,
    num_classes=2,
)
SLOW = Processor(title="slow", cores=2, core_flops=1e6, bytes_per_s=4e6)


def test_the_weights_of_a_step_are_the_decoders_matrices_and_the_output() -> None:
    work = search_work(MODEL, src_len=7, tgt_len=5)
    # Self-attention, the queries and outputs of cross-attention, the feed-forward.
    assert work.step_weights == LAYERS * (6 * WIDTH**2 + 2 * WIDTH * INNER) + TYPES * WIDTH
    # The encoder, and cross-attention's keys and values of every decoder layer.
    assert work.encode_weights == LAYERS * (4 * WIDTH**2 + 2 * WIDTH * INNER) + LAYERS * 2 * WIDTH**2


@pytest.mark.parametrize("beam", [1, 3])
def test_all_work_is_that_of_the_counter(beam: int) -> None:
    work = search_work(MODEL, src_len=7, tgt_len=5, beam=beam)
    whole = count_config(MODEL, src_len=7, tgt_len=5, beam=beam).macs_executed
    assert work.encode_macs + work.steps * work.step_macs == pytest.approx(whole)
    # Matrices for seven tokens, attention over 7 x 7 pairs, LayerNorms; nothing of it is a hypothesis'.
    parts = count_config(MODEL, src_len=7, tgt_len=5, beam=beam).by_part()
    encoder = sum(cost.executed for name, cost in parts.items() if name.startswith("encoder"))
    assert work.encode_macs == encoder + 7 * LAYERS * 2 * WIDTH**2


def test_a_beam_reads_the_weights_once() -> None:
    one, four = (search_work(MODEL, src_len=7, tgt_len=5, beam=beam) for beam in (1, 4))
    assert four.step_weights == one.step_weights
    assert four.step_macs == pytest.approx(4 * one.step_macs)


@pytest.mark.parametrize("family", ["transformer", "subformer"])
def test_layers_that_share_their_weights_read_them_once(family: str) -> None:
    """A layer of the encoder, and one of the decoder with its output; the work is that of six layers."""
    layers = {"num_encoder_layers": 6, "num_decoder_layers": 6}
    model = EncoderDecoderConfig(**{**MODEL.model_dump(), **layers, "family": family, "sharing": "all"})
    work = search_work(model, src_len=7, tgt_len=5)
    assert work.step_weights == 6 * WIDTH**2 + 2 * WIDTH * INNER + TYPES * WIDTH
    assert work.encode_weights == 4 * WIDTH**2 + 2 * WIDTH * INNER + 2 * WIDTH**2
    alone = search_work(EncoderDecoderConfig(**{**MODEL.model_dump(), **layers}), src_len=7, tgt_len=5)
    assert (work.encode_macs, work.step_macs) == (alone.encode_macs, alone.step_macs)
    assert alone.step_weights == 6 * (6 * WIDTH**2 + 2 * WIDTH * INNER) + TYPES * WIDTH


def test_a_language_model_has_no_encoder() -> None:
    model = LanguageModelConfig(
        family="transformer", tgt_vocab_size=TYPES, embed_dim=WIDTH, ffn_dim=INNER, num_heads=2, num_decoder_layers=1
    )
    work = search_work(model, src_len=7, tgt_len=5)
    assert (work.encode_macs, work.encode_weights) == (0, 0)
    assert work.step_weights == 4 * WIDTH**2 + 2 * WIDTH * INNER + TYPES * WIDTH


def test_a_model_that_takes_fewer_tokens_than_are_compared() -> None:
    model = LanguageModelConfig(
        family="transformer", tgt_vocab_size=TYPES, embed_dim=WIDTH, ffn_dim=INNER, num_heads=2, num_decoder_layers=1
    )
    shortest = model.model_copy(update={"max_positions": 2})
    assert search_work(shortest, src_len=2, tgt_len=2) == search_work(model, src_len=2, tgt_len=2)


def test_the_longer_limit_counts() -> None:
    # 1000 Mult-Adds are 2 ms at 1 MFLOPS, 1000 weights of 4 bytes 1 ms at 4 MB/s.
    fp32 = Estimate.of(1000, 1000, SLOW, threads=1, precision="fp32")
    assert (fp32.arithmetic_ms, fp32.memory_ms, fp32.ms, fp32.bound) == (2.0, 1.0, 2.0, "arithmetic")
    both = Estimate.of(1000, 2000, SLOW, threads=2, precision="fp32")
    assert (both.arithmetic_ms, both.memory_ms, both.ms, both.bound) == (1.0, 2.0, 2.0, "memory")
    assert Estimate.of(1000, 2000, SLOW, threads=2, precision="int8").memory_ms == 0.5


def test_the_cortex_a72_is_that_of_the_paper() -> None:
    processor = PROCESSORS["cortex-a72"]
    assert processor.cores * processor.core_flops == 48e9


def test_an_estimate_adds_up_and_says_that_it_is_one() -> None:
    estimated = estimate_speed(MODEL, processor="cortex-a72", beam=2)
    content = estimated.as_dict()
    assert content["estimate"] is True
    assert content["lengths"] == {"src": 30, "tgt": 30}
    assert [(row["precision"], row["threads"]) for row in content["rows"]] == [
        ("fp32", 1), ("fp32", 4), ("int8", 1), ("int8", 4)
    ]  # fmt: skip
    for row in estimated.rows:
        assert row.sentence_ms == pytest.approx(row.encode.ms + 30 * row.step.ms)
        assert row.tokens_per_s == pytest.approx(30_000 / row.sentence_ms)
    assert content["weights_read"]["token"] == estimated.work.step_weights


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--estimate: expected one of cortex-a72, found 'cortex-a7'; did you mean"):
        find_processor("cortex-a7")
    with pytest.raises(UsageError, match="expected a model with a decoder, found a sequence-classifier"):
        estimate_speed(CLASSIFIER, processor="cortex-a72")
    with pytest.raises(UsageError, match="--beam: expected 1 to 256, found 0"):
        estimate_speed(MODEL, processor="cortex-a72", beam=0)


def test_the_least_time_of_an_output_is_the_estimates_on_one_core_in_fp32() -> None:
    estimated = estimate_speed(MODEL, processor="cortex-a72")
    (row,) = (row for row in estimated.rows if (row.precision, row.threads) == ("fp32", 1))
    assert least_ms(MODEL, PROCESSORS["cortex-a72"], src_len=30, tgt_len=30) == pytest.approx(row.sentence_ms)
    # Every weight of a classifier is for all tokens: two operations a Mult-Add, a million in a second.
    macs = count_config(CLASSIFIER, src_len=9, tgt_len=1).macs_executed
    assert least_ms(CLASSIFIER, SLOW, src_len=9, tgt_len=1) == pytest.approx(1e3 * 2 * macs / 1e6)
