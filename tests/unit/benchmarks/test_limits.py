"""The benchmark of limits: what a step reads, and how times are split; no time is held against anything."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.unit.benchmarks.scripts import loaded


@pytest.fixture(scope="module")
def limits() -> Iterator[ModuleType]:
    """The benchmark, whose import sets the threads of NumPy's library for its own process."""
    before = dict(os.environ)
    with loaded("limits") as found:
        yield found["limits"]
    os.environ.clear()
    os.environ.update(before)


def test_what_a_step_reads_whole(limits: ModuleType) -> None:
    """Weights of products in the body, wherever they are kept; not those before the loop, nor tables of rows."""

    def constant(name: str, dtype: type, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(np.zeros(shape, dtype), name)

    body = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "token"], ["row"]),
            helper.make_node("MatMul", ["row", "weight"], ["inner"]),
            helper.make_node("MatMul", ["inner", "own"], ["out"]),
        ],
        "body",
        [],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, None)],
        [constant("own", np.int8, 4, 3)],
    )
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "encoder"], ["y"]),
            helper.make_node("Loop", ["count", "", "y"], ["z"], body=body),
        ],
        "main",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)],
        [
            constant("table", np.float32, 100, 8),
            constant("weight", np.float32, 8, 4),
            constant("encoder", np.float32, 8, 8),
            constant("count", np.int64),
        ],
    )
    assert limits.bytes_read(helper.make_model(graph)) == 4 * 8 * 4 + 4 * 3


def test_a_step_is_what_more_steps_take(limits: ModuleType) -> None:
    step, rest = limits.split_times(7.0, 22.0, few_steps=10, many_steps=40)
    assert (step, rest) == (0.5, 2.0)


def test_a_search_takes_the_steps_that_are_asked_for(limits: ModuleType) -> None:
    """The length of the source, by which a translation is bounded, is another option."""
    assert [limits.forced(100).steps(src_len) for src_len in (1, 20, 200)] == [100, 100, 100]
    assert limits.forced(100).min_length == 99  # the end mark takes a step


def test_bundles_without_graphs_for_onnx_are_refused(
    limits: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["limits.py", str(tmp_path / "none.zip")])
    with pytest.raises(SystemExit) as ended:
        limits.main()
    assert ended.value.code == 2
    assert "none.zip" in capsys.readouterr().err
