"""Searches step by step: what a stream shows on the way, and that it ends where the search does."""

from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.search import SearchOptions, search, stream_search
from lite_nlp.decoding.step_models import State
from lite_nlp.decoding.translate import Translator

SIZE = 12


class Counting:
    """Says that each token is followed by the next greater one, from the first source token on; the last by the end."""

    def __init__(self) -> None:
        self.steps = 0

    def start(self, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], capacity: int) -> State:
        return src_tokens[:, 0] - 1

    def step(self, tokens: NDArray[np.int64], state: State) -> tuple[NDArray[np.float32], State]:
        self.steps += 1
        following = np.where(state + 1 == SIZE, EOS_ID, state + 1)
        return 5 * np.eye(SIZE, dtype=np.float32)[following], state + 1

    def reorder(self, state: State, rows: NDArray[np.int64]) -> State:
        return state[rows]


class Digits:
    """A codec whose words are numbers."""

    def encode(self, text: str) -> list[int]:
        return [int(word) for word in text.split()]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(map(str, ids))

    def unfamiliar(self, text: str) -> float:
        return 0.0


def translator(model: Counting, **options: int) -> Translator:
    return Translator(
        tokenizer=Digits(), model=model, options=SearchOptions(**options), max_source_tokens=4, warn=lambda _: None
    )


@pytest.mark.parametrize("beam", [1, 3])
def test_the_last_of_a_stream_is_what_the_search_finds(beam: int) -> None:
    options = SearchOptions(beam_size=beam)
    found = list(stream_search(Counting(), [8], options))
    assert found[-1] == search(Counting(), [[8]], options)[0].tokens
    if beam == 1:
        assert found == [[8], [8, 9], [8, 9, 10], [8, 9, 10, 11], [8, 9, 10, 11]]


def test_the_text_of_a_line_grows() -> None:
    assert list(translator(Counting()).stream("9")) == ["9", "9 10", "9 10 11", "9 10 11"]


def test_who_stops_reading_ends_the_search() -> None:
    model = Counting()
    texts = translator(model).stream("3")
    assert [next(texts), next(texts)] == ["3", "3 4"]
    texts.close()  # type: ignore[attr-defined]
    assert model.steps == 2


def test_pieces_of_a_long_line_follow_one_another() -> None:
    # Five words are one too many; halves of it are translated on their own.
    line = "10 10 10 11 11"
    whole = next(iter(translator(Counting()).translate_lines([line], batch_size=1)))
    texts = list(translator(Counting()).stream(line))
    assert texts[-1] == whole == "10 11 10 11"
    assert texts == ["10", "10 11", "10 11", "10 11 10", "10 11 10 11", "10 11 10 11"]


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_the_last_of_a_blank_text_is_its_translation(text: str) -> None:
    whole = "\n".join(translator(Counting()).translate_lines(text.split("\n"), batch_size=1))
    assert list(translator(Counting()).stream(text)) == [whole]
