import re

import pytest

from lite_nlp.config.preset import TrainingConfig
from lite_nlp.core.errors import TrainingError
from lite_nlp.training.state import RunIdentity, RunState, Validation

from .tiny_task import make_config


def validation(step: int, loss: float, bleu: float | None = None) -> Validation:
    measures = {} if bleu is None else {"bleu": bleu}
    return Validation(step=step, loss=loss, nll=loss, **measures)


def test_better_is_a_lower_loss_or_a_higher_bleu() -> None:
    assert validation(1, 2.0).beats(validation(2, 3.0), "loss")
    assert not validation(1, 2.0).beats(validation(2, 2.0), "loss")
    assert validation(1, 3.0, bleu=20.0).beats(validation(2, 2.0, bleu=10.0), "bleu")
    assert not validation(1, 3.0, bleu=20.0).beats(validation(2, 2.0, bleu=10.0), "loss")


def test_of_equal_scores_the_lower_loss_is_better() -> None:
    state = RunState()
    gains = [state.add_validation(validation(step, 3.0 - step, bleu=0.0), metric="bleu") for step in range(3)]
    assert gains == [True, True, True]
    assert (state.best, state.without_gain) == (validation(2, 1.0, bleu=0.0), 0)
    assert not state.close(validation(3, 1.5, bleu=0.0), metric="bleu")


def test_validations_since_the_best_are_counted() -> None:
    state = RunState()
    gains = [
        state.add_validation(validation(step, loss), metric="loss") for step, loss in enumerate([3.0, 2.0, 2.5, 2.2])
    ]
    assert gains == [True, True, False, False]
    assert state.best == validation(1, 2.0)
    assert state.without_gain == 2
    assert state.end(TrainingConfig(patience=3)) is None
    assert state.end(TrainingConfig(patience=2)) == "early_stopping"
    assert state.end(TrainingConfig(patience=0)) is None


def test_the_closing_validation_counts_until_the_run_goes_on() -> None:
    state = RunState()
    state.add_validation(validation(4, 3.0), metric="loss")
    assert not state.close(validation(5, 3.5), metric="loss")
    assert state.best_of_all("loss") == validation(4, 3.0)
    assert state.close(validation(5, 2.0), metric="loss")
    assert state.best_of_all("loss") == validation(5, 2.0)
    assert state.all_validations == [validation(4, 3.0), validation(5, 2.0)]
    assert RunState.model_validate_json(state.model_dump_json()) == state
    state.add_step(1, 1, 1.0, steps_of_epoch=100)
    assert state.all_validations == [validation(4, 3.0)]
    assert (state.best_of_all("loss"), state.without_gain) == (validation(4, 3.0), 0)


def test_a_run_ends_by_steps_or_epochs() -> None:
    state = RunState()
    ends = [state.add_step(10, 12, 0.5, steps_of_epoch=3) for _ in range(7)]
    assert ends == [False, False, True, False, False, True, False]
    assert (state.step, state.epoch, state.step_in_epoch) == (7, 2, 1)
    assert (state.src_tokens, state.tgt_tokens) == (70, 84)
    assert state.tokens_per_second == pytest.approx(44.0)
    assert state.end(TrainingConfig(max_steps=7)) == "max_steps"
    assert state.end(TrainingConfig(max_epochs=2)) == "max_epochs"
    assert state.end(TrainingConfig(max_steps=8, max_epochs=3)) is None


def test_a_state_survives_json() -> None:
    state = RunState(step=3, seconds=0.1 + 0.2)
    state.add_validation(validation(3, 1 / 3, bleu=12.5), metric="bleu")
    assert RunState.model_validate_json(state.model_dump_json()) == state


def test_what_ends_a_run_may_change_and_nothing_else() -> None:
    first = RunIdentity.of(make_config(max_steps=5), data={"train_pairs": 7}, batches_per_step=2)
    longer = RunIdentity.of(
        make_config(max_steps=9, patience=3, gradient_accumulation=2), data={"train_pairs": 7}, batches_per_step=2
    )
    longer.check_resumable(first)
    other = RunIdentity.of(make_config(seed=4, max_steps=9), data={"train_pairs": 8}, batches_per_step=1)
    expected = (
        "cannot resume: expected the run's own config and data (of the training section, only max_steps, max_epochs,"
        " patience, checkpoint_every_steps may change), found: batches_per_step was 2, is 1;"
        " config.training.seed was 1, is 4; data.train_pairs was 7, is 8"
    )
    with pytest.raises(TrainingError, match=re.escape(expected)):
        other.check_resumable(first)


def test_a_run_goes_on_from_the_weights_that_it_began_with() -> None:
    def run(init_from: str | None) -> RunIdentity:
        return RunIdentity.of(make_config(), data={}, batches_per_step=1, init_from=init_from)

    run("a").check_resumable(run("a"))
    run(None).check_resumable(run("a"))
    for saved in ("b", None):
        with pytest.raises(TrainingError, match=f"init_from was {saved!r}, is 'a'"):
            run("a").check_resumable(run(saved))


def test_a_run_saved_before_a_key_existed_goes_on_with_its_default() -> None:
    run = RunIdentity.of(make_config(), data={}, batches_per_step=1)
    older = run.model_copy(deep=True)
    del older.config["training"]["label_smoothing"]
    run.check_resumable(older)
    changed = RunIdentity.of(make_config(label_smoothing=0.2), data={}, batches_per_step=1)
    with pytest.raises(TrainingError, match=r"config\.training\.label_smoothing was 0\.1, is 0\.2"):
        changed.check_resumable(older)


@pytest.mark.parametrize("metric", ["bleu", "accuracy"])
def test_other_scores_than_the_loss_are_better_when_higher(metric: str) -> None:
    low, high = (Validation.model_validate({"step": 1, "loss": 1.0, "nll": 1.0, metric: score}) for score in (1.0, 2.0))
    assert high.beats(low, metric)
    assert not low.beats(high, metric)
