"""What ``import lite_nlp`` offers, and what it costs."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import setuptools

import lite_nlp
from lite_nlp.core.version import __version__

NAMES = [
    "bench_model",
    "check_budget",
    "compress_model",
    "convert_to_t2r",
    "count_model",
    "distill_model",
    "evaluate_model",
    "export_model",
    "load_model",
    "open_classifier",
    "open_generator",
    "open_translator",
    "prepare_data",
    "report_model",
    "train_model",
    "write_sample",
]

#: Packages of which none may be imported with the package itself.
HEAVY = (
    "torch",
    "numpy",
    "pydantic",
    "onnxruntime",
    "typer",
    "rich",
    "tokenizers",
    "pyarrow",
    "sacrebleu",
    "accelerate",
)


def test_the_names_are_these() -> None:
    assert lite_nlp.__all__ == ["__version__", *NAMES]
    assert dir(lite_nlp) == sorted(lite_nlp.__all__)
    assert lite_nlp.__version__ == __version__


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_a_documented_and_typed_function(name: str) -> None:
    function = getattr(lite_nlp, name)
    assert function.__name__ == name
    text = inspect.getdoc(function) or ""
    assert "Raises:" in text
    assert "Args:" in text
    signature = inspect.signature(function)
    assert signature.return_annotation is not inspect.Signature.empty
    for parameter in signature.parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty, parameter
        assert f"{parameter.name}:" in text, parameter


def test_there_is_no_other_name() -> None:
    with pytest.raises(AttributeError, match="module 'lite_nlp' has no attribute 'translate_everything'"):
        lite_nlp.translate_everything  # noqa: B018


def test_importing_the_package_imports_nothing_heavy(tmp_path: Path) -> None:
    code = f"import sys, lite_nlp; print([name for name in {HEAVY} if name in sys.modules], len(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    found, _, modules = done.stdout.rpartition(" ")
    assert found == "[]"
    # The interpreter's own, and a handful: what takes milliseconds.
    assert int(modules) < 100


@pytest.mark.parametrize("name", ["export", "compress"])
def test_files_of_the_users_own_shadow_nothing(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise RuntimeError('imported')\n")
    (tmp_path / "script.py").write_text(
        "from lite_nlp.compress.lnlp.container import read_container\n"
        "from lite_nlp.export.runtime import open_bundle\n"
        "import lite_nlp.compress, lite_nlp.export\n"
        "print(read_container.__module__, open_bundle.__module__)\n"
    )
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "lite_nlp.compress.lnlp.container lite_nlp.export.runtime.bundle\n"


def test_a_wheel_has_the_folders_at_the_top_level_inside_the_package() -> None:
    packages = setuptools.find_packages(str(Path(__file__).parents[2]), include=["lite_nlp*"])
    assert {"lite_nlp.compress.lnlp", "lite_nlp.export.runtime", "lite_nlp.tasks.translation"} <= set(packages)
    assert all(package.partition(".")[0] == "lite_nlp" for package in packages)
