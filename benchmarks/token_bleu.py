"""BLEU of tokenized text, as papers on Multi30k report it."""

from pathlib import Path

from sacrebleu.metrics import BLEU

from lite_nlp.decoding.lines import read_file_lines

__all__ = ["token_bleu"]


def token_bleu(translations: Path, references: Path) -> float:
    """BLEU of the tokens as they stand in both files, plain or ``.gz``."""
    hypotheses, expected = read_file_lines(translations), read_file_lines(references)
    return float(BLEU(tokenize="none", force=True).corpus_score(hypotheses, [expected]).score)
