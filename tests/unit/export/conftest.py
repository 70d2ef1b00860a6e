"""Small exported models, made once: tracing and lowering take seconds even for a few hundred weights."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from lite_nlp.artifacts.fused_decoder import FusedDecoder
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.decoding.torch_model import TorchStepModel
from lite_nlp.export import executorch_program as executorch_part
from lite_nlp.export import onnx_graphs as onnx_part
from lite_nlp.export.executorch_program import ExecuTorchProgram, export_executorch
from lite_nlp.export.onnx_graphs import OnnxFiles, export_onnx
from lite_nlp.export.runtime.engine import Engine, GreedyEngine, SearchEngine
from lite_nlp.export.runtime.executorch import ExecuTorchRunner
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    FileEntry,
    Manifest,
    Vocabulary,
)
from lite_nlp.export.runtime.onnx import OnnxRunner
from lite_nlp.export.tracing import TracedModel, trace_model
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder

VOCAB_SIZE = 40
BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)
FAMILIES: dict[str, dict[str, Any]] = {
    "transformer": {"family": "transformer", "pre_norm": True, "final_norm": True},
    "lite-transformer-dynamic": {"family": "lite-transformer", "conv_type": "dynamic", "conv_glu": True},
    "lite-transformer-lightweight": {"family": "lite-transformer", "tie_embeddings": "none"},
    "lightconv": {"family": "lightconv"},
}


@dataclass(frozen=True)
class Exported:
    """A model, its traced graphs, and a manifest that describes them."""

    model: EncoderDecoder
    traced: TracedModel
    manifest: Manifest

    @property
    def reference(self) -> TorchStepModel:
        return TorchStepModel(self.model)


def build_small(name: str) -> EncoderDecoder:
    """One encoder layer; a decoder kernel longer than most of the sources and targets of the tests."""
    kernels = {} if name == "transformer" else {"kernel_sizes": (5,), "decoder_kernel_sizes": (9,)}
    return build_model_with(**kernels, **FAMILIES[name])


def build_model_with(**options: Any) -> EncoderDecoder:
    torch.manual_seed(3)
    model = build_model(
        EncoderDecoderConfig(
            **{
                "src_vocab_size": VOCAB_SIZE,
                "tgt_vocab_size": VOCAB_SIZE,
                "embed_dim": 16,
                "ffn_dim": 24,
                "num_encoder_layers": 1,
                "num_decoder_layers": 1,
                "num_heads": 2,
                "cross_num_heads": 4,
                "conv_num_heads": 2,
                "max_positions": 32,
                **options,
            }
        )
    )
    for parameter in model.parameters():
        # Fresh biases are zero and would hide a leak from padding.
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval()


def build_wide() -> EncoderDecoder:
    """Wide enough that its products are worth quantizing."""
    return build_model_with(
        family="lite-transformer",
        embed_dim=128,
        ffn_dim=128,
        src_vocab_size=160,
        tgt_vocab_size=160,
        conv_type="dynamic",
        conv_glu=True,
        pre_norm=True,
        kernel_sizes=(3,),
        decoder_kernel_sizes=(3,),
    )


def describe(traced: TracedModel, *, types: int = VOCAB_SIZE) -> Manifest:
    nothing = FileEntry(sha256="0" * 64, size_bytes=0)
    entries = {"onnx": onnx_part.ENTRY, "executorch": executorch_part.ENTRY}
    names = [TOKENIZER_FILE, CONFIG_FILE, *(name for entry in entries.values() for name in entry.members)]
    return Manifest(
        name="small",
        versions={},
        precision="fp32",
        vocabulary=Vocabulary(src_size=types, tgt_size=types),
        bounds=traced.bounds,
        state=traced.state,
        runtimes=entries,
        files=dict.fromkeys(names, nothing),
    )


@cache
def exported(name: str) -> Exported:
    model = build_small(name)
    traced = trace_model(model, BOUNDS)
    return Exported(model, traced, describe(traced))


@cache
def onnx_files(name: str) -> OnnxFiles:
    made = exported(name)
    return export_onnx(made.traced, FusedDecoder(made.model))


@cache
def onnx_engine(name: str) -> Engine:
    made = exported(name)
    members = members_of(onnx_files(name))
    return SearchEngine(
        made.manifest, OnnxRunner(onnx_part.ENTRY, members.__getitem__, made.manifest.layout, threads=1)
    )


def members_of(files: OnnxFiles) -> dict[str, bytes]:
    entry = onnx_part.ENTRY
    return {
        entry.encode: files.encode,
        entry.decode_step: files.decode_step,
        entry.greedy: files.greedy,
        entry.beam: files.beam,
        entry.weights: files.weights,
    }


@cache
def executorch_program(name: str) -> ExecuTorchProgram:
    return export_executorch(exported(name).traced)


@cache
def executorch_engine(name: str) -> GreedyEngine:
    made = exported(name)
    runner = ExecuTorchRunner(made.manifest.layout, executorch_program(name).content, threads=1)
    return GreedyEngine(made.manifest, runner)


@pytest.fixture(scope="session")
def small() -> Callable[[str], Exported]:
    """A traced model by the name of its family."""
    return exported


@pytest.fixture(scope="session")
def small_onnx() -> Callable[[str], tuple[OnnxFiles, Engine]]:
    """Its ONNX files and engine."""
    return lambda name: (onnx_files(name), onnx_engine(name))


@pytest.fixture(scope="session")
def small_executorch() -> Callable[[str], tuple[ExecuTorchProgram, Engine]]:
    """Its ExecuTorch program and engine."""
    return lambda name: (executorch_program(name), executorch_engine(name))


@pytest.fixture
def source_rows() -> list[list[int]]:
    """Sources of every length up to the bound, so that every batch holds padding; twelve to a batch."""
    random = np.random.default_rng(5)
    lengths = random.permutation([*range(BOUNDS.source), 1, 1, 0])
    return [random.integers(3, VOCAB_SIZE, length).tolist() for length in lengths]
