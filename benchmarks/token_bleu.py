"""BLEU of tokenized text, as papers on Multi30k report it."""

from pathlib import Path

from sacrebleu.metrics import BLEU

from lite_nlp.compress.significance import Measure
from lite_nlp.decoding.lines import read_file_lines
from lite_nlp.tasks.translation.bleu import measure_of

__all__ = ["token_bleu"]


def token_bleu(translations: Path, references: Path) -> Measure:
    """BLEU of the tokens as they stand in both files, plain or ``.gz``, as statistics of each line."""
    return measure_of(BLEU(tokenize="none", force=True), read_file_lines(translations), read_file_lines(references))
