"""A beam model made of a step model: the interface of :class:`BeamModel` in plain NumPy, one sentence at a time."""

from typing import Any

import numpy as np

from lite_nlp.decoding.hypotheses import rank_extensions
from lite_nlp.decoding.step_models import BeamCall, BeamSteps, StepModel


class BeamDouble:
    """Takes steps of beam search with a model that it asks for logits; its state has a row for each hypothesis."""

    def __init__(self, model: StepModel) -> None:
        self.model = model
        self.start, self.reorder = model.start, model.reorder
        self.calls: list[BeamCall] = []

    def step(self, tokens: Any, state: Any) -> Any:
        raise AssertionError("a model that searches by itself is asked for logits")

    def search_beams(self, call: BeamCall, state: Any) -> tuple[BeamSteps, Any]:
        self.calls.append(call)
        sentences, width = call.tokens.shape
        places = call.best.shape[1]
        tokens, parents, live, finished = call.tokens, call.parents, call.live, call.finished.copy()
        best = [[(score, place) for place, score in enumerate(row)] for row in call.best.tolist()]
        done = np.zeros(sentences, np.bool_)
        made: list[Any] = []
        first = np.arange(sentences)[:, None] * width
        sound = True
        hypotheses, places_of_words = np.nonzero(call.blocked >= 0)
        for index in range(call.steps):
            step = call.step + index + 1
            logits, state = self.model.step(tokens.reshape(-1), self.model.reorder(state, parents.reshape(-1)))
            sound &= bool(np.isfinite(logits).all())
            ranked = rank_extensions(
                np.nan_to_num(logits),
                live,
                beam_size=width,
                must_end=(call.limits <= step).tolist(),
                may_end=((step > call.min_length) | (call.limits <= step)).tolist(),
                blocked=(hypotheses, call.blocked[hypotheses, places_of_words]),
            )
            live, chosen = (np.array([getattr(one, name) for one in ranked]) for name in ("scores", "parents"))
            for row, candidates in enumerate(ranked):
                ends = [] if done[row] else candidates.ends
                finished[row] += len(ends)
                scores = [candidates.end_scores[hypothesis] / call.penalties[step] for hypothesis in ends]
                origins = [places + index * width + hypothesis for hypothesis in ends]
                best[row] += zip(map(float, scores), origins, strict=True)
                best[row] = sorted(best[row], key=lambda found: -found[0])[:places]
                done[row] |= bool(
                    finished[row] >= width
                    or call.limits[row] <= step
                    or best[row][-1][0] >= live[row, 0] / call.penalties[call.limits[row]]
                )
            tokens, parents = np.array([candidates.tokens for candidates in ranked]), chosen + first
            made.append((tokens, chosen))
            if done.sum() >= call.leave:
                break
        steps = BeamSteps(
            tokens=np.stack([one for one, _ in made]),
            parents=np.stack([one for _, one in made]),
            live=live,
            best=np.array([[score for score, _ in row] for row in best]),
            origins=np.array([[origin for _, origin in row] for row in best]),
            finished=finished,
            done=done,
            sound=sound,
        )
        return steps, state
