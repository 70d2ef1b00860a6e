import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial
from lite_nlp.core.errors import BundleError
from lite_nlp.core.special_tokens import SPECIAL_TOKENS
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.counting.bundle import check_agreement, read_graphs
from lite_nlp.export.runtime.bundle import open_bundle
from lite_nlp.export.runtime.manifest import (
    CONFIG_FILE,
    TOKENIZER_FILE,
)

TOKENS = [*SPECIAL_TOKENS, *(f"t{number}" for number in range(40 - len(SPECIAL_TOKENS)))]
TOKENIZER = json.dumps({"model": {"vocab": {token: number for number, token in enumerate(TOKENS)}}}).encode()

#: What nobody would count in these graphs, and so can only have been read.
RECORD = GraphWork(
    encode={"matmul": Polynomial(((3, 1, 0),))}, decode_step={"convolution": Polynomial(((5, 0, 1), (1, 0, 0)))}
)


@pytest.fixture
def bundle_path(small, small_onnx, tmp_path: Path):
    """Writes a bundle with the ONNX graphs of a small model and the given records."""

    def write(**graphs: Any) -> Path:
        made, onnx_files = small("transformer"), small_onnx("transformer")[0]
        files = {
            TOKENIZER_FILE: TOKENIZER,
            CONFIG_FILE: b"",
            "encode.onnx": onnx_files.encode,
            "decode_step.onnx": onnx_files.decode_step,
            "greedy.onnx": onnx_files.greedy,
            "beam.onnx": onnx_files.beam,
            "weights.bin": onnx_files.weights,
            "model.pte": b"program",
        }
        changes = {"files": describe_files(files), "graphs": graphs}
        write_bundle(tmp_path / "small.zip", manifest=made.manifest.model_copy(update=changes), files=files, force=True)
        return tmp_path / "small.zip"

    return write


def test_what_can_be_counted_is_counted_and_the_rest_read(small, bundle_path) -> None:
    record = RECORD.to_json()
    bundle = open_bundle(bundle_path(torch=record, onnx=record, executorch=record, merged=record))
    graphs = read_graphs(bundle)
    assert graphs.origins == {"torch": "recorded", "onnx": "recounted", "executorch": "recorded"}
    assert graphs.columns["torch"].to_json() == record
    # 16 channels, 24 inside, 3 projections of attention's input and 1 of its output, 2 of cross-attention's source.
    assert graphs.columns["onnx"].encode["matmul"] == Polynomial(((32, 2, 0), (6 * 256 + 2 * 16 * 24, 1, 0)))
    assert not graphs.reconciliation.agrees

    with_model = read_graphs(bundle, model=small("transformer").model)
    assert with_model.origins == {"torch": "recounted", "onnx": "recounted", "executorch": "recorded"}
    assert with_model.columns["torch"] == graphs.columns["onnx"]
    assert {item.column for item in with_model.reconciliation.unexplained} == {"executorch"}


def test_a_bundle_without_records(bundle_path) -> None:
    graphs = read_graphs(open_bundle(bundle_path()))
    assert graphs.origins == {"onnx": "recounted"}
    assert graphs.reconciliation.agrees


def test_without_torch_and_onnx_everything_is_read(bundle_path) -> None:
    record = RECORD.to_json()
    path = bundle_path(torch=record, onnx=record, executorch=record)
    code = (
        "import sys\n"
        "for name in ('torch', 'onnx', 'executorch', 'onnxruntime'):\n"
        "    sys.modules[name] = None\n"
        "from lite_nlp.export.counting.bundle import read_graphs\n"
        "from lite_nlp.export.runtime.bundle import open_bundle\n"
        "graphs = read_graphs(open_bundle(sys.argv[1]))\n"
        "print(graphs.origins, graphs.columns['onnx'].macs(10, 4)['convolution'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # 4 steps of 5 * 4 + 1.
    assert done.stdout == "{'torch': 'recorded', 'onnx': 'recorded', 'executorch': 'recorded'} 84\n"


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ({"encode": {}}, "graphs: Value error, onnx: work of graphs: expected the keys encode and decode_step"),
        ({"encode": {"matmul": [[1, 9, 0]]}, "decode_step": {}}, "onnx: polynomial: expected terms of three integers"),
        ([], "onnx: work of graphs: expected the keys"),
    ],
)
def test_records_that_are_none(bundle_path, work: Any, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        open_bundle(bundle_path(onnx=work))


def test_graphs_that_do_other_work_are_refused() -> None:
    more = dataclasses.replace(RECORD, encode={"matmul": Polynomial(((4, 1, 0),))})
    with pytest.raises(BundleError) as caught:
        check_agreement({"torch": RECORD, "onnx": RECORD, "executorch": more}, merged=RECORD, source="made.zip")
    assert str(caught.value) == (
        "made.zip: expected graphs that do the model's work, found differences: executorch: encode: matmul: 1 S "
        "Mult-Adds beyond the model's: nothing explains it"
    )
    check_agreement({"torch": RECORD, "onnx": RECORD}, merged=RECORD, source="made.zip")
