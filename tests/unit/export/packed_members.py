"""Members of a bundle that has no graphs, and the tensors that lie in them."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lite_nlp.artifacts.bundles import decode_container
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.lnlp.encodings import encode_fp32
from lite_nlp.export.bundle_writer import describe_files
from lite_nlp.export.packing import Packing
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import CONFIG_FILE, TOKENIZER_FILE, Manifest, Vocabulary
from lite_nlp.export.runtime.member_maker import sinusoid_table
from lite_nlp.export.runtime.recipes import Packed

Tensors = Mapping[str, NDArray[Any]]

RANDOM = np.random.default_rng(11)
MATRIX = RANDOM.normal(size=(12, 8)).astype(np.float32)
BIAS = RANDOM.normal(size=40).astype(np.float32)
TENSORS: dict[str, NDArray[Any]] = {"layer.weight": MATRIX, "layer.bias": BIAS}
TOKENIZER = json.dumps({"model": {"vocab": {"<pad>": 0, "<s>": 1, "</s>": 2, "a": 3}}}).encode()
PLAIN = {
    TOKENIZER_FILE: TOKENIZER,
    CONFIG_FILE: b"name = 'tiny'\n",
    "weights.bin": b"head" + MATRIX.tobytes() + BIAS.tobytes() + sinusoid_table(rows=20, columns=40).tobytes(),
    "program": MATRIX.T.tobytes() + b"the program itself" + BIAS.tobytes(),
}
PACKED = [TOKENIZER_FILE, "weights.bin", "program"]


def make_packing(tensors: Tensors = TENSORS, **files: bytes) -> Packing:
    encoded = {name: encode_fp32(tensor) for name, tensor in tensors.items()}
    return Packing(container_bytes(tensors=encoded, files=files, metadata={}), decode_container)


def make_manifest(files: dict[str, bytes], packed: Packed | None = None) -> Manifest:
    return Manifest(
        name="tiny",
        versions={},
        precision="fp32",
        vocabulary=Vocabulary(src_size=4, tgt_size=4),
        bounds=Bounds(source=8, capacity=8, executorch_batch=2),
        state=(),
        files=describe_files(files),
        packed=packed,
    )
