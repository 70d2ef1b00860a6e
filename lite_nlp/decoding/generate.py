"""Continuation of texts: tokenize, batch, continue token by token, restore the order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lite_nlp.core.special_tokens import EOS_ID
from lite_nlp.decoding.continuation import GenerationOptions, TextStepModel, TokenRun, continue_rows, continue_steps
from lite_nlp.decoding.lines import input_line, one_line
from lite_nlp.decoding.text_codec import WHOLE_CHARACTERS, TextCodec, warn_of_letters

__all__ = ["Generated", "Generator"]

#: Characters of a prompt that are tokenized for each token that the model reads, at least: few words are longer.
_TOKEN_CHARACTERS: Final = 16

#: Batches per window: prompts are sorted by length inside a window, and its texts come out together.
_WINDOW_BATCHES: Final = 16


@dataclass(frozen=True, kw_only=True)
class Generated:
    """A text and how a language model goes on.

    Attributes:
        prompt: The text as it was given.
        continuation: What follows, up to the end of the line.
        tokens: Tokens of the continuation, the end mark not counted.
        log_prob: Logarithm of the continuation's probability, given the prompt (nats), with that of the end mark if it
            was reached.
        ended: Whether the model ended the line; else the tokens or the model's positions were used up.
    """

    prompt: str
    continuation: str
    tokens: int
    log_prob: float
    ended: bool

    @property
    def text(self) -> str:
        """Prompt and continuation."""
        return self.prompt + self.continuation


class Generator:
    """Continues lines of text with any engine: every line gets a continuation, whatever it contains.

    The lines of one text are joined by the end mark, as the model was trained on them; the last of them is continued.
    An empty prompt is the beginning of a text. Of a prompt that leaves the model no position only the last tokens are
    read, half as many as the model has positions. That, and letters unknown to the vocabulary, which are read from
    their bytes, are reported to ``warn``.

    Args:
        tokenizer: Of the model.
        model: The engine.
        options: How tokens are chosen.
        max_positions: Most steps that the model takes.
        warn: Receives each warning, which starts with the line's number.
    """

    def __init__(
        self,
        *,
        tokenizer: TextCodec,
        model: TextStepModel,
        options: GenerationOptions,
        max_positions: int,
        warn: Callable[[str], None],
    ) -> None:
        self._tokenizer = tokenizer
        self._model = model
        self._options = options
        self._max_positions = max_positions
        self._warn = warn

    def generate_chunks(self, chunks: Iterable[Sequence[str]], *, batch_size: int) -> Iterator[Generated]:
        """Continue texts that arrive in chunks, such as ``read_chunks`` gives, in order.

        Nothing is held back for a later chunk. A large chunk is worked on in windows of some batches, whose texts are
        sorted by length and put back in order.

        Args:
            chunks: Lists of texts.
            batch_size: Most texts continued at once.
        """
        window = batch_size * _WINDOW_BATCHES
        number = 1
        for chunk in chunks:
            for start in range(0, len(chunk), window):
                texts = chunk[start : start + window]
                yield from self._window(texts, number, batch_size)
                number += len(texts)

    def stream(self, text: str) -> Iterator[str]:
        """Continue one text, and yield it as it grows, prompt included; stop iterating to cancel."""
        prompt, run = self._prompt(text, 1), TokenRun()
        steps = continue_steps(
            self._model, [prompt], [run], self._options, max_positions=self._max_positions, numbers=[1]
        )
        for _ in steps:
            yield self._describe(text, prompt, run).text

    def _window(self, texts: Sequence[str], first: int, batch_size: int) -> list[Generated]:
        prompts = [self._prompt(text, number) for number, text in enumerate(texts, start=first)]
        order = sorted(range(len(texts)), key=lambda place: len(prompts[place]))
        runs: dict[int, TokenRun] = {}
        for start in range(0, len(order), batch_size):
            batch = order[start : start + batch_size]
            found = continue_rows(
                self._model,
                [prompts[place] for place in batch],
                self._options,
                max_positions=self._max_positions,
                numbers=[first + place for place in batch],
            )
            runs |= zip(batch, found, strict=True)
        return [self._describe(text, prompts[place], runs[place]) for place, text in enumerate(texts)]

    def _prompt(self, text: str, number: int) -> list[int]:
        """The tokens of a text, as many as the model reads."""
        # A word has its space in front of it: that at the end of a prompt is the first word's of the continuation.
        read = text.rstrip(" ")
        tail = read[-max(WHOLE_CHARACTERS, _TOKEN_CHARACTERS * self._max_positions) :]
        whole = len(tail) == len(read)
        lines = [self._tokenizer.encode(input_line(line)) for line in tail.split("\n")]
        tokens = [token for place, line in enumerate(lines) for token in ([EOS_ID] * (place > 0) + line)]
        warn_of_letters(self._tokenizer, tail, number, result="continuation", warn=self._warn)
        if len(tokens) < self._max_positions and whole:
            return tokens
        kept = min(self._max_positions // 2, len(tokens))
        found = f"{len(tokens)} tokens" if whole else f"more than {len(tokens)} tokens"
        self._warn(
            f"line {number}: only the last {kept} tokens of the prompt are read: it has {found}, the model reads "
            f"{self._max_positions} with what it adds"
        )
        return tokens[-kept:]

    def _describe(self, text: str, prompt: Sequence[int], run: TokenRun) -> Generated:
        last = prompt[max((place for place, token in enumerate(prompt, start=1) if token == EOS_ID), default=0) :]
        whole = self._tokenizer.decode([*last, *run.tokens])
        # The tokenizer takes the space before a line away, so that the continuation alone would lose one.
        continuation = one_line(whole[len(self._tokenizer.decode(last)) :])
        return Generated(
            prompt=text,
            continuation=continuation.removeprefix(" ") if text.endswith(" ") else continuation,
            tokens=len(run.tokens),
            log_prob=run.log_prob,
            ended=run.ended,
        )
