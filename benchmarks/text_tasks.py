"""The experiments on other tasks of ``docs/results.md``: language models, summaries, classifiers, on real text.

Each is a comparison of a paper, scaled down to what one core trains in minutes.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from cells import MISSING, score_cell, spread_cell, table_head, table_line
from corpora import inference, samsum, sentiment, wikitext
from rows import Place, Row, is_measured, measure_stages, swap_stage, train_stage
from stages import Stage

__all__ = [
    "accuracy_table",
    "inference_rows",
    "language_models",
    "rouge_table",
    "sentiment_lstm_rows",
    "sentiment_rows",
    "summaries",
]

_BF16: Final = {"training.precision": "bf16"}

#: Two epochs of WikiText-2; the preset's dropout is for a text of a tenth of the size.
LANGUAGE_MODEL: Final = {**_BF16, "training.max_steps": 1500, "training.warmup_steps": 150, "model.dropout": 0.1}

#: After the swap a third of the steps at half the rate; the paper halves both (appendix A.1).
AFTER_SWAP: Final = {
    **_BF16,
    "training.max_steps": 500,
    "training.learning_rate": 1e-3,
    "training.warmup_steps": 50,
}

#: Sharing schemes of the Subformer's table 4, at the preset's width; and SAFE with a residual connection around its
#: feed-forward block, as tables of the model's width have it.
SHARING: Final[Mapping[str, Mapping[str, Any]]] = {
    "Subformer: sandwich, SAFE": {},
    "Subformer: sandwich, SAFE from a table of 160 channels": {"model.embedding_dim": 160},
    "Subformer: sandwich, linear embeddings": {"model.embedding": "linear"},
    "Subformer: all layers shared": {"model.sharing": "all", "model.sandwich_dim": 0, "model.sandwich_ffn_dim": 0},
    "Subformer: every two layers shared": {
        "model.sharing": "every-two",
        "model.sandwich_dim": 0,
        "model.sandwich_ffn_dim": 0,
    },
}

#: Feature maps of T2R's table 1, with the options of ``convert t2r``.
MAPS: Final[Mapping[str, Sequence[str]]] = {
    "t2r": ("--feature-size", "32"),
    "elu": (),
    "random-features": ("--feature-size", "32"),
}

#: Dialogues are 135 tokens long on average, summaries 26; one in ten dialogues is cut off.
SUMMARIES: Final = {
    **_BF16,
    "training.max_epochs": 6,
    "training.batch_tokens": 8192,
    "training.learning_rate": 2e-3,
    "training.warmup_steps": 300,
    "training.schedule": "cosine",
    "training.average_checkpoints": 2,
    "training.max_tokens": 300,
    "training.truncate": "true",
}

#: Of both kinds of classifiers: some six epochs of the pairs, or of the sentences.
CLASSIFIERS: Final = {"training.max_steps": 1000, "training.validate_every_steps": 250, "training.patience": 0}

#: A quarter of the weights of a square matrix of 300 channels, as a quaternion layer has.
_LOW_RANK_LSTM: Final = {"model.family": "r2d2", "model.lstm_linear": "low-rank", "model.linear_rank": 38}

#: The same of 128 channels; the paper's latent factors too are a quarter of the width.
_LOW_RANK_ENCODER: Final = {
    "model.family": "r2d2",
    "model.attention_linear": "low-rank",
    "model.ffn_linear": "low-rank",
    "model.linear_rank": 16,
}

SEEDS: Final = (1, 2, 3)

_INFERENCE: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "LSTM": ("r2d2-lstm-nli-dense", {}),
    "R2D2-LSTM, n = 2": ("r2d2-lstm-nli-2", {}),
    "R2D2-LSTM, n = 5": ("r2d2-lstm-nli-5", {}),
    "R2D2-LSTM, n = 10": ("r2d2-lstm-nli-10", {}),
    "quaternion LSTM": ("r2d2-lstm-nli-quaternion", {}),
    "low-rank LSTM": ("r2d2-lstm-nli-dense", _LOW_RANK_LSTM),
}

#: The same cells, reading one text, with as many tokens a step as the encoders.
_SENTIMENT_LSTM: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    label: (preset, {"model.architecture": "lstm-classifier", "training.batch_tokens": 4096, **settings})
    for label, (preset, settings) in _INFERENCE.items()
}

_SENTIMENT: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "Transformer": ("r2d2-sva-dense", {}),
    "R2D2, n = 2": ("r2d2-sva-2", {}),
    "R2D2, n = 4": ("r2d2-sva-4", {}),
    "R2D2, n = 8": ("r2d2-sva-8", {}),
    "quaternion": ("r2d2-sva-quaternion", {}),
    "low-rank": ("r2d2-sva-dense", _LOW_RANK_ENCODER),
}


def language_models(place: Place) -> list[Row]:
    """WikiText-2: families, sharing schemes, and linear attention after a swap."""
    data, prepare = wikitext(place)

    def row(label: str, name: str, *stages: Stage) -> Row:
        measures = measure_stages(place, name, ["--data", str(data), "--split", "test"])
        return Row(label, [*prepare, *stages, *measures], place.runs / name, name)

    def trained(label: str, preset: str, settings: Mapping[str, Any]) -> tuple[Row, Stage]:
        name = f"wikitext-{_stem(label)}"
        train = train_stage(place, name, preset, data, {**LANGUAGE_MODEL, **settings}, "--threads", "1")
        return row(label, name, train), train

    first, softmax = trained("Transformer", "tinyshakespeare-transformer", {})
    rows = [first, trained("Lite Transformer", "tinyshakespeare-lite-transformer", {})[0]]
    rows += [trained(label, "tinyshakespeare-subformer", settings)[0] for label, settings in SHARING.items()]
    for kind, options in MAPS.items():
        swapped, name = place.runs / f"wikitext-{kind}-swapped", f"wikitext-{kind}-finetuned"
        convert = swap_stage(place, swapped.name, softmax.out, "--feature-map", kind, *options)
        rows.append(row(f"{kind}, after the swap", swapped.name, softmax, convert))
        more = ("--init-from", str(swapped), "--threads", "1")
        finetune = train_stage(place, name, str(swapped), data, AFTER_SWAP, *more)
        rows.append(row(f"{kind}, finetuned", name, softmax, convert, finetune))
    return rows


def summaries(place: Place) -> list[Row]:
    """SAMSum: dialogues of some hundred tokens, tri-grams blocked."""
    data, prepare = samsum(place)
    rows = []
    for label in ("Transformer", "Lite Transformer"):
        name = f"samsum-{_stem(label)}"
        preset = f"multi30k-{_stem(label)}"
        train = train_stage(place, name, preset, data, SUMMARIES, "--threads", "1")
        search = ["--beam", "4", "--no-repeat-ngram", "3", "--long-input", "truncate", "--max-length", "60"]
        measures = measure_stages(place, name, ["--data", str(data), "--split", "test", *search])
        rows.append(Row(label, [*prepare, train, *measures], train.out, name))
    return rows


def inference_rows(place: Place) -> list[Row]:
    """Natural language inference: the cells of an LSTM, factorized."""
    data, prepare = inference(place)
    return _classifiers(place, "inference", data, prepare, _INFERENCE)


def sentiment_rows(place: Place) -> list[Row]:
    """SST-2: the Linears of an encoder, factorized."""
    data, prepare = sentiment(place)
    return _classifiers(place, "sentiment", data, prepare, _SENTIMENT)


def sentiment_lstm_rows(place: Place) -> list[Row]:
    """SST-2: the cells of an LSTM, factorized."""
    data, prepare = sentiment(place)
    return _classifiers(place, "sentiment-lstm", data, prepare, _SENTIMENT_LSTM)


def _classifiers(
    place: Place,
    stem: str,
    data: Path,
    prepare: Sequence[Stage],
    models: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> list[Row]:
    """All trainings; the first seed of every model comes before the second of any."""
    rows = []
    for seed in SEEDS:
        for label, (preset, settings) in models.items():
            name = f"{stem}-{_stem(label)}-{seed}"
            keys = {**CLASSIFIERS, **settings, "training.seed": seed}
            train = train_stage(place, name, preset, data, keys, "--threads", "1")
            measures = measure_stages(place, name, ["--data", str(data), "--split", "test"])
            rows.append(
                Row(f"{stem}: {label}, seed {seed}", [*prepare, train, *measures], train.out, name, group=label)
            )
    return rows


def _stem(label: str) -> str:
    """The label as part of a directory's name."""
    kept = "".join(character if character.isalnum() else " " for character in label.lower())
    return "-".join(kept.split())


def rouge_table(rows: Sequence[dict[str, Any]]) -> str:
    """ROUGE on the test split, with intervals."""
    metrics = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeLsum": "ROUGE-L"}
    lines = table_head(["model", "parameters", "validation perplexity", *metrics.values()])
    for row in rows:
        cells = [MISSING] * (2 + len(metrics))
        if is_measured(row):
            scores = [score_cell(row["evaluation"]["scores"], metric) for metric in metrics]
            perplexity = f"{row['training']['valid']['perplexity']:.2f}"
            cells = [f"{row['budget']['params']['total']:,}", perplexity, *scores]
        lines.append(table_line([row["name"], *cells]))
    return "\n".join(lines)


def accuracy_table(rows: Sequence[dict[str, Any]]) -> str:
    """Accuracy on the test split: mean and spread of the seeds."""
    lines = table_head(["model", "parameters without tables", "seeds", "accuracy, validation", "accuracy, test"])
    for group in dict.fromkeys(row["group"] for row in rows):
        measured = [row for row in rows if row["group"] == group and is_measured(row)]
        cells = [MISSING, str(len(measured)), MISSING, MISSING]
        if measured:
            cells = [
                f"{measured[0]['budget']['params']['paper']:,}",
                str(len(measured)),
                spread_cell(row["training"]["valid"]["accuracy"] for row in measured),
                spread_cell(row["evaluation"]["scores"]["accuracy"] for row in measured),
            ]
        lines.append(table_line([group, *cells]))
    return "\n".join(lines)
