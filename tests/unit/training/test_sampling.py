"""A run that is watched by its loss takes samples of its score as long as they cost little."""

from torch import nn

from lite_nlp.training.sampling import ScoreSamples


class Slow:
    """A task whose score takes 2 seconds on a clock of its own."""

    measures = {"bleu": "BLEU"}  # noqa: RUF012

    def __init__(self) -> None:
        self.now = 0.0
        self.taken: list[int | None] = []

    def measure(self, model: nn.Module, *, examples: int | None = None) -> dict[str, float]:
        assert not model.training
        self.now += 2.0
        self.taken.append(examples)
        return {"bleu": 12.0}


def test_samples_cost_at_most_a_twentieth_of_the_training() -> None:
    task, model = Slow(), nn.Linear(1, 1).train()
    samples = ScoreSamples(task, clock=lambda: task.now)  # type: ignore[arg-type]
    taken = [bool(samples.take(model, training_seconds=float(seconds))) for seconds in range(0, 1000, 10)]
    assert taken.index(True) == 6
    # 2 seconds in each 40 of training, from the 60th second on.
    assert sum(taken) == 24
    assert set(task.taken) == {100}
    assert model.training


def test_a_task_without_scores_has_no_samples() -> None:
    task = Slow()
    task.measures = {}  # type: ignore[misc]
    assert ScoreSamples(task).take(nn.Linear(1, 1), training_seconds=1e9) == {}  # type: ignore[arg-type]
    assert task.taken == []
