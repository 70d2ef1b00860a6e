import re
import sys
import tomllib
from pathlib import Path

import pytest

from lite_nlp.core.errors import MissingExtraError
from lite_nlp.core.extras import EXTRAS, missing_package, needs_extra

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without torch and onnx."""
    for name in ("torch", "onnx"):
        monkeypatch.setitem(sys.modules, name, None)


def test_the_table_is_that_of_the_project() -> None:
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        names = {re.split(r"[\[<>=]", row)[0] for row in declared[extra]} - {"lite-nlp"}
        assert {name.replace("-", "_") for name in names} == set(packages)
    assert "lite-nlp[runtime]" in declared["train"]
    assert "lite-nlp[train]" in declared["export"]


@pytest.mark.usefixtures("without")
def test_a_missing_package_is_named_with_its_extra() -> None:
    with pytest.raises(MissingExtraError) as raised, needs_extra("embroider"):
        import torch  # noqa: F401
    assert str(raised.value) == (
        "embroider: needs the extra lite-nlp[train], install it with pip install 'lite-nlp[train]' "
        "(torch is not installed)"
    )


@pytest.mark.usefixtures("without")
def test_the_extra_of_the_work_wins_if_it_contains_the_packages() -> None:
    with pytest.raises(MissingExtraError, match=r"lite-nlp\[export\]"), needs_extra("embroider", "export", whole=False):
        import torch  # noqa: F401
    with pytest.raises(MissingExtraError, match=r"lite-nlp\[export\]"), needs_extra("embroider", "train", whole=False):
        import onnx  # noqa: F401


@pytest.mark.usefixtures("without")
def test_the_packages_of_an_extra_are_looked_for_before_the_work_begins() -> None:
    done = []
    with pytest.raises(MissingExtraError, match="torch is not installed"), needs_extra("embroider", "export"):
        done.append(1)
    assert not done
    assert missing_package("runtime") is None
    assert missing_package("train") == "torch"


def test_nothing_is_missing_here() -> None:
    assert missing_package("export") is None


@pytest.mark.parametrize(
    "module", ["lite_nlp.embroidery", "torch.embroidery", "sympy_of_torch"], ids=["ours", "broken", "foreign"]
)
def test_what_is_no_missing_extra_stays_what_it_is(module: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=module), needs_extra("embroider", "train"):
        __import__(module)
