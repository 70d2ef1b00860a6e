"""A hash of a loaded model, the same whatever kind of file it came from."""

import hashlib

from lite_nlp.artifacts.models import LoadedModel

__all__ = ["model_sha256"]


def model_sha256(loaded: LoadedModel) -> str:
    """Hexadecimal SHA-256 of what determines a model's output: its ``[model]`` section, tokenizer and weights."""
    import torch

    digest = hashlib.sha256(loaded.config.model.model_dump_json().encode("utf-8"))
    digest.update(loaded.tokenizer.sha256.encode("ascii"))
    for name, tensor in sorted(loaded.model.state_dict().items()):
        values = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
        digest.update(values.flatten().view(torch.uint8).numpy())
    return digest.hexdigest()
