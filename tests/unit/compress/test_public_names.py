"""The names that ``lite_nlp.compress`` offers, and that importing it is cheap."""

import subprocess
import sys

import pytest

import lite_nlp.compress


def test_the_list_of_names() -> None:
    assert lite_nlp.compress.__all__ == [
        "Change",
        "Choice",
        "CompressionOptions",
        "CompressionSubject",
        "Container",
        "Finetuning",
        "HeldWeights",
        "Measure",
        "Metric",
        "QuantizedWeights",
        "Quantizer",
        "Scored",
        "StageRow",
        "TrainableWeights",
        "TuningOptions",
        "compress_module",
        "load_compressed",
        "mean_measure",
        "read_container",
        "register_quantizer",
        "run_pipeline",
    ]
    assert dir(lite_nlp.compress) == lite_nlp.compress.__all__
    assert all(getattr(lite_nlp.compress, name).__name__ == name for name in lite_nlp.compress.__all__)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match=r"'lite_nlp.compress' has no attribute 'compress'"):
        lite_nlp.compress.compress  # noqa: B018


def test_the_package_imports_nothing_heavy_and_containers_need_no_torch() -> None:
    code = (
        "import sys, lite_nlp.compress; assert not {'torch', 'numpy'} & set(sys.modules);"
        "lite_nlp.compress.read_container; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
