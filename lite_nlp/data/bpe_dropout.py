"""BPE-dropout (Provilkov et al. 2020, section 3): text in other tokens than the usual ones, by leaving out merges.

A model that sees a word in several segmentations learns what its parts mean, which helps with rare words and small
corpora. Here each token is segmented anew by itself, as if it were a word: so token ids suffice, and the segmentations
of all types are drawn once. A merge across two of the usual tokens, which the paper's algorithm can make after it has
left out another, is not among them. The dropout of ``tokenizers`` takes no seed, so that no run could be repeated.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt

from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.data.tokenizer import Tokenizer

__all__ = ["Segmentations"]

#: Segmentations drawn of each type.
_DRAWS: Final = 32

#: Longest type in bytes that is segmented, which takes the square of its length; no word is longer, but rows of dashes.
_LONGEST_TYPE: Final = 128

TokenIds = npt.NDArray[np.int32]


class Segmentations:
    """Segmentations of every type of a vocabulary, drawn by BPE-dropout.

    Args:
        tokenizer: The tokenizer, with its merges.
        rate: Probability that a merge is left out, each time it could be made; 0 to 1, 1 excluded.
        seed: Seed of the draws.
    """

    def __init__(self, tokenizer: Tokenizer, *, rate: float, seed: int) -> None:
        model = json.loads(tokenizer.to_json())["model"]
        ids: dict[str, int] = model["vocab"]
        ranks = {(left, right): rank for rank, (left, right) in enumerate(model["merges"])}
        rng = np.random.default_rng(seed)
        drawn: list[Sequence[int]] = []
        for text, token in sorted(ids.items(), key=lambda entry: entry[1]):
            if token < len(SPECIAL_TOKENS) or not 1 < len(text) <= _LONGEST_TYPE:
                drawn += [(token,)] * _DRAWS
            else:
                drawn += [[ids[part] for part in _segment(text, ranks, rate, rng)] for _ in range(_DRAWS)]
        self._lengths = np.fromiter(map(len, drawn), dtype=np.int64, count=len(drawn))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._tokens = np.fromiter((token for part in drawn for token in part), dtype=np.int32)

    def draw(self, rows: Sequence[TokenIds], rng: np.random.Generator) -> list[TokenIds]:
        """Rows of token ids in which each token is replaced by a segmentation of it, drawn at random.

        Args:
            rows: Token ids of texts.
            rng: Source of the draws.

        Returns:
            As many rows, which decode to the same texts.
        """
        counts = [len(row) for row in rows]
        if not sum(counts):
            return list(rows)
        places = np.concatenate(rows).astype(np.int64) * _DRAWS + rng.integers(_DRAWS, size=sum(counts))
        lengths = self._lengths[places]
        ends = np.cumsum(lengths)
        # Each token's place in the table: its segmentation's start, and as many steps as it is behind the first.
        steps = np.arange(ends[-1]) - np.repeat(ends - lengths, lengths)
        tokens = self._tokens[np.repeat(self._starts[places], lengths) + steps]
        bounds = np.concatenate([[0], ends])[np.cumsum(counts)[:-1]]
        return np.split(tokens, bounds)


def _segment(text: str, ranks: Mapping[tuple[str, str], int], rate: float, rng: np.random.Generator) -> list[str]:
    """Algorithm 1 of the paper: of the merges that are not left out this time, the first one is made, until none is."""
    parts = list(text)
    while len(parts) > 1:
        kept = rng.random(len(parts) - 1) >= rate
        found = [
            (rank, place)
            for place, pair in enumerate(pairwise(parts))
            if kept[place] and (rank := ranks.get(pair)) is not None
        ]
        if not found:
            break
        _, place = min(found)
        parts[place : place + 2] = [parts[place] + parts[place + 1]]
    return parts
