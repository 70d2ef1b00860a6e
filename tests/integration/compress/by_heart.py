"""A model small enough to train here until it knows its few sentences by heart, and its compression."""

import itertools
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from lite_nlp import prepare_data
from lite_nlp.artifacts.directory import save_model_directory
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import Config
from lite_nlp.core.special_tokens import PAD_ID
from lite_nlp.data.pairs.batches import collate
from lite_nlp.data.pairs.directory import open_sentence_pairs
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder
from tests.integration.conftest import Done, LiteNlp

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


def write_by_heart(path: Path) -> None:
    """Write texts, the data directory ``data`` and ``model``, which is trained on it."""
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
