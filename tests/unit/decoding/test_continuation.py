"""Continuation of token rows by a model that is a table: what it says is known, so is what must come out."""

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from lite_nlp.core.errors import ModelError, UsageError
from lite_nlp.decoding.continuation import GenerationOptions, TokenRun, continue_rows

TYPES = 9


class TableModel:
    """The next token's logits depend on the last two tokens and the position; counts its calls and tokens."""

    max_read = 2

    def most_rows(self, prompt: int, limit: int) -> None:
        """Any number."""

    def __init__(self, seed: int = 0, end: float = -1.0) -> None:
        random = np.random.default_rng(seed)
        self.table = random.normal(size=(64, TYPES, TYPES, TYPES)).astype(np.float32)
        self.table[..., :2] += 9.0  # pad and bos, which must never come out
        self.table[..., 2] += end
        self.calls: list[int] = []
        self.tokens = 0
        self.capacity = 0

    def start(self, rows: int, capacity: int) -> NDArray[np.int64]:
        self.capacity = capacity
        return np.zeros((rows, 2), np.int64)

    def read(
        self, tokens: NDArray[np.int64], state: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
        self.calls.append(tokens.shape[1])
        self.tokens += tokens.size
        assert 1 <= tokens.shape[1] <= self.max_read
        for column in tokens.T:
            position, before = state.T
            assert int(position.max()) < self.capacity
            logits, state = self.table[position, before, column], np.stack([position + 1, column], axis=1)
        return logits, state

    def reorder(self, state: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return state[rows]


def continued(
    model: TableModel, prompts: Sequence[Sequence[int]], positions: int = 40, **options: float
) -> list[TokenRun]:
    chosen = GenerationOptions(**options)  # type: ignore[arg-type]
    numbers = range(1, len(prompts) + 1)
    return continue_rows(model, prompts, chosen, max_positions=positions, numbers=numbers)


def log_probs(model: TableModel, tokens: Sequence[int]) -> NDArray[np.float64]:
    """(T, V) log-probabilities after each of ``tokens``, which begin with the end mark."""
    rows = [model.table[place, tokens[place - 1] if place else 0, token] for place, token in enumerate(tokens)]
    logits = np.array(rows, np.float64)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


PROMPTS = ([], [3, 4, 5, 6, 7], [8], [4, 4, 2, 3], [3])


def test_greedy_takes_the_likeliest_and_tells_its_probability() -> None:
    model = TableModel()
    for prompt, run in zip(PROMPTS, continued(model, PROMPTS, max_tokens=12), strict=True):
        whole = [2, *prompt, *run.tokens]
        table = log_probs(model, whole)[len(prompt) :]
        said = [*run.tokens, 2] if run.ended else run.tokens
        assert said == (table[: len(said), 2:].argmax(axis=1) + 2).tolist()
        assert run.log_prob == pytest.approx(sum(table[place, token] for place, token in enumerate(said)))
        assert len(run.tokens) == 12 or run.ended


@pytest.mark.parametrize("options", [{}, {"temperature": 1.5}, {"top_k": 3}])
def test_a_row_does_not_depend_on_the_others(options: dict[str, float]) -> None:
    together = continued(TableModel(), PROMPTS, max_tokens=9, **options)
    chosen = GenerationOptions(max_tokens=9, **options)  # type: ignore[arg-type]
    alone = [
        continue_rows(TableModel(), [prompt], chosen, max_positions=40, numbers=[number])[0]
        for number, prompt in enumerate(PROMPTS, start=1)
    ]
    assert [run.tokens for run in together] == [run.tokens for run in alone]
    assert [run.log_prob for run in together] == pytest.approx([run.log_prob for run in alone])
    assert any(run.ended for run in together)


def test_no_token_is_computed_twice_and_none_after_the_end() -> None:
    model = TableModel(end=1.0)
    runs = continued(model, PROMPTS, max_tokens=12)
    # Each row: the mark before the text, the prompt, and what came out but for the last, which nothing follows.
    assert model.tokens == sum(
        1 + len(prompt) + len(run.tokens) - (not run.ended) for prompt, run in zip(PROMPTS, runs, strict=True)
    )
    assert sum(model.calls) == max(
        1 + len(prompt) + len(run.tokens) - (not run.ended) for prompt, run in zip(PROMPTS, runs, strict=True)
    )


def test_prompts_are_read_as_far_as_all_rows_have_tokens() -> None:
    model = TableModel(end=-50.0)
    continued(model, [[3, 4, 5, 6, 7], [4, 4, 2, 3]], max_tokens=2)
    # Five and six tokens with their marks: two and two, the fifth, and what is left step by step.
    assert model.calls == [2, 2, 1, 1, 1]
    model.calls.clear()
    continued(model, [[], [3, 4, 5, 6, 7]], max_tokens=1)
    # The row without a prompt ends after its first step: the other goes on by as many as it has.
    assert model.calls == [1, 2, 2, 1]


class NarrowModel(TableModel):
    """Takes three short texts at once, or one that is longer."""

    def most_rows(self, prompt: int, limit: int) -> int:
        return 3 if prompt + limit < 12 else 1

    def start(self, rows: int, capacity: int) -> NDArray[np.int64]:
        assert rows == 1 or (rows <= 3 and capacity < 12)
        self.batches.append(rows)
        return super().start(rows, capacity)


def test_no_more_rows_are_taken_at_once_than_the_model_takes() -> None:
    model = NarrowModel(end=-20.0)
    model.batches = []
    prompts = [[3], [4] * 4, [5], [6] * 3, [3] * 20, [4] * 5, [5] * 6, [6]]
    found = continued(model, prompts, max_tokens=6)
    assert model.batches == [3, 1, 1, 1, 1, 1]
    assert found == continued(TableModel(end=-20.0), prompts, max_tokens=6)


def test_the_positions_bound_the_text() -> None:
    model = TableModel(end=-50.0)
    runs = continued(model, PROMPTS, positions=8)
    assert [len(run.tokens) for run in runs] == [8, 3, 7, 4, 7]
    assert not any(run.ended for run in runs)
    assert (sum(model.calls), model.capacity) == (8, 8)


def test_tokens_are_drawn_by_their_probabilities() -> None:
    model = TableModel()
    expected = np.exp(log_probs(model, [2]))[0, 2:]
    for temperature, top_k in ((None, 4), (1.0, None), (2.0, 3), (0.5, None)):
        options = GenerationOptions(max_tokens=1, temperature=temperature, top_k=top_k)
        runs = continue_rows(model, [[]] * 4000, options, max_positions=9, numbers=range(4000))
        found = np.bincount([2 if run.ended else run.tokens[0] for run in runs], minlength=TYPES)[2:] / 4000
        wanted = expected ** (1.0 / (temperature or 1.0))
        if top_k is not None:
            wanted[np.argsort(wanted)[:-top_k]] = 0.0
        wanted /= wanted.sum()
        assert found == pytest.approx(wanted, abs=0.035)
        assert (found[wanted == 0.0] == 0.0).all()


def test_the_seed_decides_and_one_candidate_is_greedy() -> None:
    first, again, other = (
        [run.tokens for run in continued(TableModel(), PROMPTS, temperature=1.0, seed=seed)] for seed in (1, 1, 2)
    )
    assert first == again != other
    one = continued(TableModel(), PROMPTS, top_k=1, temperature=3.0)
    assert [run.tokens for run in one] == [run.tokens for run in continued(TableModel(), PROMPTS)]


def test_nothing_to_continue() -> None:
    assert continued(TableModel(), []) == []


def test_damaged_weights_are_told() -> None:
    model = TableModel()
    model.table[3:] = np.nan
    with pytest.raises(ModelError, match="expected finite logits at every step, found NaN"):
        continued(model, PROMPTS)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_tokens", 0), ("temperature", 0.0), ("temperature", float("nan")), ("top_k", 0), ("seed", -1)],
)
def test_options_out_of_range(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}: expected"):
        GenerationOptions(**{name: value})  # type: ignore[arg-type]
