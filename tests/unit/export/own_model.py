"""An encoder-decoder that is none of ours: embeddings, a gated recurrent cell, attention over the source."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import Manifest, Vocabulary
from lite_nlp.export.runtime.recipes import Packed

VOCAB_SIZE = 30
TYPES = ["<pad>", "<s>", "</s>", *(f"t{number}" for number in range(VOCAB_SIZE - 3))]
TOKENIZER = json.dumps({"model": {"vocab": {token: number for number, token in enumerate(TYPES)}}}).encode()


class OwnModel(nn.Module):
    """B rows, S source tokens, 16 channels."""

    def __init__(self, types: int = VOCAB_SIZE) -> None:
        super().__init__()
        self.source = nn.Embedding(types, 16)
        self.target = nn.Embedding(types, 16)
        self.mix = nn.Linear(16, 16)
        self.cell = nn.GRUCell(32, 16)
        self.output = nn.Linear(16, types)

    def encode(self, src_tokens: Tensor, src_mask: Tensor) -> Tensor:
        return torch.tanh(self.mix(self.source(src_tokens))) * src_mask.unsqueeze(-1)

    def init_state(self, memory: Tensor, src_mask: Tensor, capacity: int) -> dict[str, Tensor]:
        mean = memory.sum(1) / src_mask.sum(1, keepdim=True)
        return {"memory": memory, "mask": src_mask, "hidden": mean}

    def decode_step(self, tokens: Tensor, state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        scores = torch.bmm(state["memory"], state["hidden"].unsqueeze(-1)).squeeze(-1)
        weights = scores.masked_fill(~state["mask"], -1e9).softmax(-1)
        context = torch.bmm(weights.unsqueeze(1), state["memory"]).squeeze(1)
        hidden = self.cell(torch.cat([self.target(tokens), context], -1), state["hidden"])
        return self.output(hidden), {**state, "hidden": hidden}


def build_own_model(types: int = VOCAB_SIZE) -> OwnModel:
    torch.manual_seed(4)
    model = OwnModel(types)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    return model.eval()


def write_bundle_without_graphs(path: Path, files: Mapping[str, bytes], packed: Packed) -> None:
    """A compact bundle of the vocabulary above that no runtime has graphs for."""
    manifest = Manifest(
        name="tiny",
        versions={},
        precision="fp32",
        vocabulary=Vocabulary(src_size=VOCAB_SIZE, tgt_size=VOCAB_SIZE),
        bounds=Bounds(source=8, capacity=8, executorch_batch=2),
        state=(),
        files=describe_files(files),
        packed=packed,
    )
    write_bundle(path, manifest=manifest, files=files)
