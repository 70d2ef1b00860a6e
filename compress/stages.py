"""How each stage of compression stores a model: from an ``nn.Module`` to encoded tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import (
    ClusteredTensor,
    EncodedTensor,
    encode_fp16,
    encode_fp32,
    encode_int64,
    encode_kmeans,
    encode_kmeans_rans,
    encode_pruned,
    fp16_codebook,
)
from lite_nlp.compress.quantize.kmeans import assign, fit_codebook

__all__ = [
    "ModelTensors",
    "cluster_parameters",
    "clustered_model",
    "dense_model",
    "entropy_coded_model",
    "model_tensors",
    "pruned_model",
    "recode_clusters",
    "set_clusters",
]


@dataclass(frozen=True)
class ModelTensors:
    """The state dict of a model with tied tensors stored once.

    Attributes:
        tensors: By the first name that the state dict has for each.
        aliases: The further names.
    """

    tensors: dict[str, Tensor]
    aliases: dict[str, str]

    @property
    def num_weights(self) -> int:
        """Elements of all tensors."""
        return sum(tensor.numel() for tensor in self.tensors.values())


def model_tensors(model: nn.Module) -> ModelTensors:
    """The tensors that a file of this model must hold; those that share their memory are one."""
    tensors: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_names: dict[tuple[object, ...], str] = {}
    for name, tensor in model.state_dict().items():
        place = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if tensor.numel() and place in first_names:
            aliases[name] = first_names[place]
        else:
            first_names[place] = name
            tensors[name] = tensor.detach().cpu()
    return ModelTensors(tensors, aliases)


def dense_model(tensors: Mapping[str, Tensor]) -> dict[str, EncodedTensor]:
    """Every weight as a 32-bit float: what all other files are measured against."""
    return {name: _encode_rest(tensor, exact=True) for name, tensor in tensors.items()}


def pruned_model(tensors: Mapping[str, Tensor]) -> dict[str, EncodedTensor]:
    """Bitmap and 32-bit floats where that is smaller than the floats alone."""
    dense = dense_model(tensors)
    for name, tensor in tensors.items():
        if dense[name].encoding == "fp32":
            pruned = encode_pruned(tensor.numpy())
            if len(pruned.payload) < len(dense[name].payload):
                dense[name] = pruned
    return dense


def clustered_model(tensors: Mapping[str, Tensor], clusters: Mapping[str, ClusteredTensor]) -> dict[str, EncodedTensor]:
    """Codebooks and fixed-width indices for the clustered tensors, 16-bit floats for the rest."""
    return {
        name: encode_kmeans(clusters[name]) if name in clusters else _encode_rest(tensor, exact=False)
        for name, tensor in tensors.items()
    }


def entropy_coded_model(
    tensors: Mapping[str, Tensor], clusters: Mapping[str, ClusteredTensor]
) -> dict[str, EncodedTensor]:
    """Entropy-coded indices where they are smaller than fixed-width ones, 16-bit floats for unclustered tensors."""
    encoded = clustered_model(tensors, clusters)
    for name, coded in (encode_kmeans_rans(clusters) if clusters else {}).items():
        if len(coded.payload) < len(encoded[name].payload):
            encoded[name] = coded
    return encoded


def cluster_parameters(parameters: Mapping[str, Tensor], num_centroids: int) -> dict[str, ClusteredTensor]:
    """Fit one codebook for each parameter, zero among the centroids where weights are pruned.

    Raises:
        ModelError: If a weight is not finite.
    """
    clusters = {}
    for name, parameter in parameters.items():
        values = parameter.detach().cpu().numpy()
        codebook = np.unique(fp16_codebook(fit_codebook(values, num_centroids)))
        clusters[name] = ClusteredTensor(codebook, assign(values, codebook))
    return clusters


def recode_clusters(clusters: Mapping[str, ClusteredTensor]) -> dict[str, ClusteredTensor]:
    """The clusters with centroids as a file will hold them: rounded, ascending, and each value once."""
    recoded = {}
    for name, cluster in clusters.items():
        codebook, renumbered = np.unique(fp16_codebook(cluster.codebook), return_inverse=True)
        recoded[name] = ClusteredTensor(codebook, renumbered.astype(np.uint16)[cluster.assignments])
    return recoded


@torch.no_grad()
def set_clusters(parameters: Mapping[str, Tensor], clusters: Mapping[str, ClusteredTensor]) -> None:
    """Set every clustered parameter, in place, to the centroids of its weights."""
    for name, cluster in clusters.items():
        parameters[name].copy_(torch.from_numpy(cluster.values()))


def _encode_rest(tensor: Tensor, *, exact: bool) -> EncodedTensor:
    if not tensor.is_floating_point():
        return encode_int64(tensor.numpy())
    return encode_fp32(tensor.float().numpy()) if exact else encode_fp16(tensor.float().numpy())
