"""Vectors of whole translations: token ids and text from a bundle of the shipped model in Python's ONNX Runtime."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from lite_nlp.artifacts.bundles import open_any_bundle
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.decoding.lines import input_line
from lite_nlp.decoding.pieces import split_text
from lite_nlp.decoding.search import SearchOptions, StepModel, search
from lite_nlp.decoding.step_models import State
from lite_nlp.decoding.text_codec import learned_spelling
from lite_nlp.decoding.translate import Translator
from lite_nlp.export.runtime import create_engine
from tools.golden.texts import everyday_sentences, hostile_texts

__all__ = ["line_vector", "translation_vectors"]

_BEAMS: Final = (1, 4)

#: As the command line has it: models are trained on sentences, not on pages.
_MAX_SOURCE_TOKENS: Final = 200

#: A text whose result changes with so small a change of the logits may come out otherwise on another processor.
_NOISE: Final = 1e-3


def translation_vectors(bundle_path: Path) -> dict[str, Any]:
    """Token ids and text of each line, greedily and with four hypotheses, one piece at a time.

    Args:
        bundle_path: A bundle of the shipped model with ONNX graphs in fp32.
    """
    bundle = open_any_bundle(bundle_path)
    tokenizer = Tokenizer.from_json(bundle.tokenizer_json)
    engine = create_engine(bundle, runtime="onnx", threads=1)
    limit = min(_MAX_SOURCE_TOKENS, engine.max_source_tokens - 1)
    return {
        "model": bundle.manifest.name,
        "tokenizer_sha256": tokenizer.sha256,
        "onnxruntime_version": onnxruntime.__version__,
        "max_source_tokens": limit,
        "lines": [line_vector(engine, tokenizer, line, limit, max_steps=engine.max_steps) for line in _lines()],
    }


def _lines() -> list[str]:
    """Everyday sentences, long lines made of them, and hostile lines; no line holds a line feed."""
    everyday = [source for source, _ in everyday_sentences(400)]
    long = [" ".join(everyday[start : start + size]) for start, size in ((0, 30), (50, 24), (100, 40))]
    endless = ["and then " * 150, "x" * 700, "nospaceatall" * 40]
    hostile = [line for line in hostile_texts() if "\n" not in line]
    return [*everyday[:200], *long, *endless, *hostile[::2], *["", " ", "a", "."]]


def line_vector(
    model: StepModel, tokenizer: Tokenizer, line: str, max_source_tokens: int, *, max_steps: int
) -> dict[str, Any]:
    """The pieces of a line and their outputs, one piece a batch: padding changes the last bits of a float.

    Raises:
        ValueError: If the pieces' outputs do not add up to what ``Translator`` makes of the line.
    """
    pieces = _pieces(tokenizer, line, max_source_tokens)
    vector: dict[str, Any] = {"text": line, "pieces": pieces}
    for beam in _BEAMS:
        options = SearchOptions(beam_size=beam, max_steps=max_steps)
        translator = Translator(
            tokenizer=tokenizer, model=model, options=options, max_source_tokens=max_source_tokens, warn=lambda _: None
        )
        (text,) = translator.translate_lines([line], batch_size=1)
        tokens = [search(model, [piece], options)[0].tokens for piece in pieces]
        joined = " ".join(" ".join(tokenizer.decode(ids) for ids in tokens).splitlines())
        if joined != text:
            raise ValueError(f"{line!r}: expected {text!r} of its pieces, found {joined!r}")
        stable = all(
            search(_Noisy(model, seed), [piece], options)[0].tokens == exact
            for seed in (1, 2)
            for piece, exact in zip(pieces, tokens, strict=True)
        )
        vector[f"beam{beam}"] = {"tokens": tokens, "text": text, "stable": stable}
    return vector


def _pieces(tokenizer: Tokenizer, line: str, max_source_tokens: int) -> list[list[int]]:
    """Token ids of the pieces in the line's order; a translator sorts them by length."""
    line = learned_spelling(tokenizer, input_line(line))
    if not line:
        return []
    tokens = tokenizer.encode(line)
    if len(tokens) <= max_source_tokens:
        return [tokens]
    cut = split_text(line, lambda text: len(tokenizer.encode(text)), max_source_tokens)
    return [tokenizer.encode(piece) for piece in cut]


class _Noisy:
    """A step model with uniform noise on its logits."""

    def __init__(self, model: StepModel, seed: int) -> None:
        self._model = model
        self._random = np.random.default_rng(seed)

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        return self._model.start(src_tokens, src_mask, capacity)

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        logits, state = self._model.step(tokens, state)
        noise = self._random.uniform(-_NOISE, _NOISE, logits.shape)
        return logits + noise.astype(np.float32), state

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        return self._model.reorder(state, rows)
