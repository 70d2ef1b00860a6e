"""Beam search over a model that takes its steps, and ranks and ends the hypotheses, by itself.

Shape letters: S sentences still in the batch, N in all, W live hypotheses each, K finished ones kept of each, T steps.
"""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lite_nlp.core.special_tokens import BOS_ID
from lite_nlp.decoding.hypotheses import Hypothesis, damaged_model, length_penalty, repeated_ngrams
from lite_nlp.decoding.options import SearchOptions
from lite_nlp.decoding.step_models import BeamCall, BeamModel, BeamSteps, State

__all__ = ["BeamRun"]

#: Of the sentences of a batch, the part after whose end the others go on without them.
_LEAVING: Final = 0.25


class BeamRun:
    """The state of a search between calls of its model, each of as many steps as there is no reason to stop after.

    Args:
        options: Of the search.
        limits: (N,) steps allowed, at least 1 each.
        count: Finished hypotheses wanted of each sentence, 1 to the size of the beam.

    Attributes:
        history: (S, W, T) words of the live hypotheses, best first.
    """

    def __init__(self, options: SearchOptions, limits: NDArray[np.int64], count: int) -> None:
        sentences, width = len(limits), options.beam_size
        self._options = options
        self._limits = limits
        self._penalties = length_penalty(np.arange(int(limits.max()) + 1), options.length_penalty)
        self._best: list[list[Hypothesis]] = [[] for _ in range(sentences)]
        self._sentences = np.arange(sentences)  # (S,) their indices among the N
        self._kept = self._sentences  # (S,) their indices among those of the latest call
        self._parents = np.repeat(self._sentences[:, None], width, axis=1)  # (S, W) rows of the latest step
        self._latest = np.full((sentences, width), BOS_ID)
        self._live = np.full((sentences, width), -np.inf)
        self._live[:, 0] = 0.0
        self._scores = np.full((sentences, count), -np.inf)  # (S, K)
        self._finished = np.zeros(sentences, np.int64)
        self._step = 0
        self.history = np.zeros((sentences, width, 0), np.int64)

    def calls(
        self, model: BeamModel, src_tokens: NDArray[np.int64], src_mask: NDArray[np.bool_], *, steps: int | None = None
    ) -> Iterator[None]:
        """Search until every sentence is done; yields after each call but the last.

        Args:
            model: The engine.
            src_tokens: (N, source) padded sources, with their end marks.
            src_mask: (N, source), True where there is a token.
            steps: Most steps of a call; None for no bound.

        Raises:
            ModelError: If the model produces logits that are not finite.
        """
        state: State = model.start(src_tokens, src_mask, int(self._limits.max()))
        if self._options.no_repeat_ngram:
            # What may not follow depends on what came before.
            steps = 1
        while True:
            call = self._call(steps)
            made, state = model.search_beams(call, state)
            if not made.sound:
                raise damaged_model()
            self._take(made)
            if not len(self._sentences):
                return
            yield

    def found(self) -> list[list[Hypothesis]]:
        """The best finished hypotheses of every sentence, at least one: that of an empty output, if there is none."""
        return [best or [Hypothesis()] for best in self._best]

    def _call(self, steps: int | None) -> BeamCall:
        limits = self._limits[self._sentences]
        left = int(limits.max()) - self._step
        blocked = self._blocked()
        return BeamCall(
            tokens=self._latest,
            parents=self._parents,
            kept=self._kept,
            live=self._live,
            best=self._scores,
            finished=self._finished,
            limits=limits,
            blocked=blocked,
            penalties=self._penalties,
            # So many that the best are among them, whatever is blocked.
            count=self._options.beam_size + int((blocked >= 0).sum(axis=1).max()),
            step=self._step,
            steps=left if steps is None else min(steps, left),
            leave=max(1, int(_LEAVING * len(limits))),
            min_length=self._options.min_length,
        )

    def _blocked(self) -> NDArray[np.int64]:
        """(S * W, B) words that would repeat an n-gram, -1 where a hypothesis has fewer."""
        size, rows = self._options.no_repeat_ngram, self._latest.size
        if not size:
            return np.full((rows, 1), -1)
        found, words = repeated_ngrams(self.history.reshape(rows, -1), size)
        numbers = np.bincount(found, minlength=rows)
        blocked = np.full((rows, max(1, int(numbers.max()))), -1)
        # The pairs come by row: the place of each is its distance from the first of the row.
        blocked[found, np.arange(len(found)) - (np.cumsum(numbers) - numbers)[found]] = words
        return blocked

    def _take(self, made: BeamSteps) -> None:
        self._keep_finished(made)
        going = np.nonzero(~made.done)[0]
        self._grow(made, going)
        width = self._latest.shape[1]
        self._kept = going
        self._sentences = self._sentences[going]
        self._parents = going[:, None] * width + made.parents[-1, going]
        self._latest = made.tokens[-1, going]
        self._live = made.live[going]
        self._scores = made.best[going]
        self._finished = made.finished[going]
        self._step += len(made.tokens)

    def _keep_finished(self, made: BeamSteps) -> None:
        width, places = self._latest.shape[1], made.best.shape[1]
        for sentence, index in enumerate(self._sentences):
            before, best = self._best[index], []
            for score, origin in zip(made.best[sentence].tolist(), made.origins[sentence].tolist(), strict=True):
                if score == -np.inf:
                    break
                if origin < places:
                    best.append(before[origin])
                else:
                    step, hypothesis = divmod(origin - places, width)
                    best.append(Hypothesis(self._words(made, sentence, step, hypothesis), score))
            self._best[index] = best

    def _words(self, made: BeamSteps, sentence: int, step: int, hypothesis: int) -> list[int]:
        """The words of a hypothesis before a step of a call."""
        words: list[int] = []
        for earlier in range(step - 1, -1, -1):
            words.append(int(made.tokens[earlier, sentence, hypothesis]))
            hypothesis = int(made.parents[earlier, sentence, hypothesis])
        return [*self.history[sentence, hypothesis].tolist(), *words[::-1]]

    def _grow(self, made: BeamSteps, going: NDArray[np.int64]) -> None:
        """Add the words of a call to the live hypotheses of the sentences that go on."""
        sentences = going[:, None]
        hypotheses = np.arange(self._latest.shape[1])[None].repeat(len(going), axis=0)
        words = []
        for tokens, parents in zip(made.tokens[::-1], made.parents[::-1], strict=True):
            words.append(tokens[sentences, hypotheses])
            hypotheses = parents[sentences, hypotheses]
        self.history = np.concatenate([self.history[sentences, hypotheses], np.stack(words[::-1], axis=-1)], axis=-1)
