"""What all tests share, and how they are dealt out to several processes."""

import gc
from typing import Any

import pytest

# Tests trace and lower graphs by the dozen, which make millions of objects that stay as long as fixtures do: with
# Python's own first threshold, 700, a sixth of their time is spent on looking for cycles.
gc.set_threshold(50_000, 20, 50)

#: Files whose tests share what is exported once in a process, which takes longer than the tests: the bundle of
#: tests/integration/conftest.py, and the graphs that conftest.py and test_in_place.py make in tests/unit/export. All
#: files of a set go to one process.
_SHARED = {
    f"tests/{folder}/test_{name}.py": folder
    for folder, names in {
        "integration": ("bench_command", "export_again", "export_command"),
        "unit/export": (
            "bundle_graphs",
            "executorch_greedy",
            "executorch_program",
            "graph_work",
            "in_place",
            "onnx_graphs",
            "rows_in_place",
            "search_graphs",
            "signatures",
            "state_layout",
        ),
    }.items()
    for name in names
}

#: Files whose tests take minutes and share nothing: each of them may go to another process.
_APART = {"tests/integration/test_docs_commands.py"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For ``--dist loadfile``: a file's tests go to one process, but for the files above."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            if file in _APART:
                return nodeid
            return _SHARED.get(file, file)

    return Scheduling(config, log)
