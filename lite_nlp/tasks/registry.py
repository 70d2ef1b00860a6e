"""Which kind of data each architecture learns from, and what it learns from it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lite_nlp.core.errors import ConfigError, DataError

if TYPE_CHECKING:
    from lite_nlp.config.preset import Config
    from lite_nlp.data.pairs.directory import DataDirectory, DataKind
    from lite_nlp.data.tokenizer import Tokenizer
    from lite_nlp.models.transformer import EncoderDecoder
    from lite_nlp.training.tasks import Task

__all__ = ["TrainingData", "fit_vocabulary", "open_training_data"]

#: Validation sentences decoded at once.
_BLEU_BATCH: Final = 128


@dataclass(frozen=True)
class TrainingData:
    """An opened data directory of the kind that an architecture learns from.

    Attributes:
        path: The directory.
        tokenizer: Its tokenizer.
        task: Makes the task of training a config's model on the directory.
        labels: Names of the classes, where it has labelled examples.
    """

    path: Path
    tokenizer: "Tokenizer"
    task: "Callable[[Config], Task[Any]]"
    labels: tuple[str, ...] = ()


def open_training_data(path: Path, config: "Config", *, vectors: Path | None = None) -> TrainingData:
    """Open the data directory ``path`` for training the config's model.

    Args:
        path: The directory.
        config: Its architecture says which kind of data is wanted.
        vectors: The file of pretrained word vectors that the embeddings are fixed to, for classifiers only.

    Raises:
        DataError: If it is no data directory, or of a kind that the model's architecture does not learn from.
        ConfigError: If there are vectors for a model that cannot keep its embeddings as they are.
    """
    from lite_nlp.data.pairs.directory import data_kind

    architecture, kind = config.model.architecture, data_kind(path)
    wanted = _KINDS[architecture]
    if kind != wanted:
        raise DataError(
            f"{path}: model.architecture = {architecture!r} learns from {_MADE_BY[wanted]}, found {_MADE_BY[kind]}"
        )
    if wanted == "labelled":
        return _open_labelled(path, vectors)
    if vectors is not None:
        raise ConfigError(f"--vectors: expected a classifier, found model.architecture = {architecture!r}")
    return _open_text(path) if wanted == "text" else _open_pairs(path)


def fit_vocabulary(config: "Config", data: TrainingData) -> "Config":
    """The config with the vocabulary and the labels that the data has; where there are two vocabularies, it is joint.

    Raises:
        ConfigError: If another key of the config does not go with its size.
    """
    from lite_nlp.config.preset import dump_config, parse_config

    size = data.tokenizer.vocab_size
    overrides = [f"model.{key}={size}" for key in config.model.vocab_sizes]
    if data.labels:
        overrides.append(f"model.num_classes={len(data.labels)}")
    return parse_config(
        dump_config(config), name=f"{config.name} with the vocabulary of {data.path}", overrides=overrides
    )


def _open_pairs(path: Path) -> TrainingData:
    from lite_nlp.data.pairs.directory import open_data

    data = open_data(path)

    def task(config: "Config") -> "Task[Any]":
        from lite_nlp.training.tasks import TranslationTask

        return TranslationTask(
            config=config,
            train=data.split("train"),
            valid=data.split("valid"),
            languages=data.info.languages.model_dump(),
            evaluate={"bleu": _bleu_measure(config, data)},
        )

    return TrainingData(path, data.tokenizer, task)


def _open_text(path: Path) -> TrainingData:
    from lite_nlp.data.text.directory import open_running_text

    data = open_running_text(path)

    def task(config: "Config") -> "Task[Any]":
        from lite_nlp.tasks.language_modelling.training import LanguageModellingTask

        return LanguageModellingTask(config=config, train=data.stream("train"), valid=data.stream("valid"))

    return TrainingData(path, data.tokenizer, task)


def _open_labelled(path: Path, vectors: Path | None) -> TrainingData:
    from lite_nlp.core.files import sha256_file
    from lite_nlp.data.labelled.directory import open_labelled

    data = open_labelled(path)

    def task(config: "Config") -> "Task[Any]":
        from lite_nlp.tasks.classification.training import ClassificationTask

        return ClassificationTask(
            config=config,
            train=data.split("train"),
            valid=data.split("valid"),
            labels=data.info.labels,
            vectors_sha256=None if vectors is None else sha256_file(vectors),
        )

    return TrainingData(path, data.tokenizer, task, labels=tuple(data.info.labels))


#: What each architecture learns from.
_KINDS: "Final[dict[str, DataKind]]" = {
    "encoder-decoder": "pairs",
    "language-model": "text",
    "sequence-classifier": "labelled",
    "pair-classifier": "labelled",
}

#: What the kinds are, and how a directory of each is made, for messages.
_MADE_BY: "Final[dict[DataKind, str]]" = {
    "pairs": "sentence pairs (data prepare --train)",
    "text": "running text (data prepare --text)",
    "labelled": "labelled examples (data prepare --labelled)",
}


def _bleu_measure(config: "Config", data: "DataDirectory") -> "Callable[[EncoderDecoder], float]":
    """A function that translates the validation split greedily and scores it."""
    positions = config.model.max_positions
    cut = config.training.truncate

    def measure(model: "EncoderDecoder") -> float:
        from lite_nlp.decoding.search import SearchOptions
        from lite_nlp.decoding.torch_model import TorchStepModel
        from lite_nlp.decoding.translate import Translator
        from lite_nlp.tasks.translation.bleu import score_translations

        sources, references = data.split("valid").texts()
        translator = Translator(
            tokenizer=data.tokenizer,
            model=TorchStepModel(model, next(model.parameters()).device),
            options=SearchOptions(max_steps=positions),
            max_source_tokens=min(config.training.max_tokens, positions - 1) if cut else positions - 1,
            long_input="truncate" if cut else "split",
            # What is unusual about a line would be said again at each validation.
            warn=lambda message: None,
        )
        translations = list(translator.translate_lines(sources, batch_size=_BLEU_BATCH))
        return score_translations(translations, references, bootstrap=0).bleu

    return measure
