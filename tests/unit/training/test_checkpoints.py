import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lite_nlp.core.errors import OutputError, TrainingError
from lite_nlp.training.checkpoints import Checkpoint, CheckpointStore
from lite_nlp.training.state import RunIdentity, RunState

from .tiny_task import make_config


def make_checkpoint(step: int) -> Checkpoint:
    return Checkpoint(
        model={"weight": torch.full((2, 3), float(step)), "bias": torch.arange(3.0)},
        optimizer={"exp_avg.weight": torch.full((2, 3), -float(step)), "step.weight": torch.tensor(float(step))},
        state=RunState(step=step, seconds=0.1 * step),
        identity=RunIdentity.of(make_config(), data={"train_pairs": 1}, batches_per_step=1),
    )


@pytest.fixture
def store(tmp_path: Path) -> CheckpointStore:
    store = CheckpointStore(tmp_path / "checkpoints")
    for step in (1, 2, 30):
        store.save(make_checkpoint(step))
    return store


def test_a_checkpoint_comes_back(store: CheckpointStore) -> None:
    loaded, saved = store.load(30), make_checkpoint(30)
    assert store.steps() == [1, 2, 30]
    assert (loaded.state, loaded.identity) == (saved.state, saved.identity)
    for one, other in ((loaded.model, saved.model), (loaded.optimizer, saved.optimizer)):
        assert one.keys() == other.keys()
        assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_checkpoint_is_two_safetensors_and_json(store: CheckpointStore) -> None:
    directory = store.directory(2)
    assert directory.name == "step-00000002"
    names = sorted(path.name for path in directory.iterdir())
    assert names == ["model.safetensors", "optimizer.safetensors", "trainer.json"]
    assert json.loads((directory / "trainer.json").read_text())["schema_version"] == 1


def test_the_average_is_the_mean(store: CheckpointStore) -> None:
    steps, mean = store.average([1, 2, 30], pytest.fail)
    assert steps == [1, 2, 30]
    torch.testing.assert_close(mean["weight"], torch.full((2, 3), 11.0))
    assert torch.equal(mean["bias"], torch.arange(3.0))
    assert mean["weight"].dtype == torch.float32


def test_damaged_checkpoints_are_left_out_of_the_average(store: CheckpointStore) -> None:
    (store.directory(2) / "model.safetensors").unlink()
    warnings: list[str] = []
    steps, mean = store.average([1, 2, 30], warnings.append)
    assert steps == [1, 30]
    expected = (store.model_state(1)["weight"] + store.model_state(30)["weight"]) / 2
    torch.testing.assert_close(mean["weight"], expected)
    assert len(warnings) == 1
    assert "skipping a damaged checkpoint" in warnings[0]
    with pytest.raises(TrainingError, match=r"expected a whole checkpoint, found only damaged ones: .*step-00000002"):
        store.average([2], warnings.append)


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "trainer.json"])
@pytest.mark.parametrize("damage", ["cut", "alter", "remove"])
def test_damage_is_noticed_and_the_checkpoint_before_is_used(store: CheckpointStore, name: str, damage: str) -> None:
    path = store.directory(30) / name
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    else:
        # The last byte of tensors is data that only the checksum covers; in the JSON the first matters.
        altered = b"x" + content[1:] if name.endswith("json") else content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes(content[: len(content) // 2] if damage == "cut" else altered)
    with pytest.raises(TrainingError, match=f"step-00000030/{name}"):
        store.load(30)
    warnings: list[str] = []
    latest = store.load_latest(warnings.append)
    assert latest is not None
    assert latest.state.step == 2
    assert len(warnings) == 1
    assert "skipping a damaged checkpoint" in warnings[0]


def test_an_unknown_version_is_refused(store: CheckpointStore) -> None:
    path = store.directory(2) / "trainer.json"
    path.write_text(path.read_text().replace('"schema_version": 1', '"schema_version": 9'))
    with pytest.raises(TrainingError, match="expected schema_version 1, found another"):
        store.load(2)


def test_with_all_damaged_there_is_an_error_and_with_none_there_is_none(store: CheckpointStore) -> None:
    for step in store.steps():
        (store.directory(step) / "trainer.json").write_text("{")
    with pytest.raises(TrainingError, match=r"expected a whole checkpoint, found only damaged ones: .*00030.*00001"):
        store.load_latest(lambda text: None)
    store.prune([])
    assert store.load_latest(lambda text: None) is None


def test_pruning_keeps_what_it_is_told_and_sweeps_up_interrupted_writes(store: CheckpointStore) -> None:
    (store.path / ".step-00000031.77-abcd.partial").mkdir()
    store.prune([1, 30])
    assert sorted(path.name for path in store.path.iterdir()) == ["step-00000001", "step-00000030"]


def test_a_full_disk_leaves_the_checkpoints_before_whole(
    store: CheckpointStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_bytes = Path.write_bytes

    def fail_midway(path: Path, content: bytes) -> int:
        write_bytes(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail_midway)
    with pytest.raises(OutputError, match=r"step-00000031: could not be written.*No space left on device"):
        store.save(make_checkpoint(31))
    with pytest.raises(OutputError):
        store.save(make_checkpoint(30))
    assert [path.name for path in sorted(store.path.iterdir())] == ["step-00000001", "step-00000002", "step-00000030"]
    assert store.load(30).state.step == 30


@pytest.mark.parametrize(
    "name", ["step-\u00b2", "step-", "step-x", "step-1", "step-" + "\u0661" * 8, "step-" + "9" * 200]
)
def test_other_directories_are_no_checkpoints(store: CheckpointStore, name: str) -> None:
    (store.path / name).mkdir()
    assert store.steps() == [1, 2, 30]


@pytest.mark.parametrize(
    "change",
    [
        lambda trainer: trainer.pop("files"),
        lambda trainer: trainer.pop("state"),
        lambda trainer: trainer.pop("identity"),
        lambda trainer: trainer.update(files=3),
        lambda trainer: trainer.update(files={"model.safetensors": []}),
        lambda trainer: trainer["files"]["model.safetensors"].update(size_bytes=-5),
        lambda trainer: trainer["files"]["model.safetensors"].update(sha256=None),
        lambda trainer: trainer.update(state=[trainer["state"]]),
    ],
)
def test_a_changed_record_of_a_checkpoint_is_refused(
    store: CheckpointStore, change: Callable[[dict[str, Any]], object]
) -> None:
    path = store.directory(30) / "trainer.json"
    trainer = json.loads(path.read_text())
    change(trainer)
    path.write_text(json.dumps(trainer))
    with pytest.raises(TrainingError, match=r"step-00000030/(trainer\.json|model\.safetensors)"):
        store.load(30)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b'{"state": ' + b"9" * 9000 + b"}", b"[]", b"NaN"])
def test_a_hostile_record_of_a_checkpoint_is_refused(store: CheckpointStore, content: bytes) -> None:
    (store.directory(30) / "trainer.json").write_bytes(content)
    with pytest.raises(TrainingError, match=r"step-00000030/trainer\.json: expected"):
        store.load(30)
