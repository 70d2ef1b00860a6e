"""Steps of columns moved out of quantized matrices, so that the integers of a bundle are those of the model's file.

Compression leaves a matrix as integers times a step for each row and each column (``grid`` in ``compress/FORMAT.md``),
the products of a bundle have integers with a step for each row alone (``docs/export.md``). What feeds a column takes
its step instead: the rows of the matrix before, the gain and bias of a norm, the scale of a table's rows; where nothing
can, the input of the product is multiplied by the steps. The model computes what it did.

Steps are powers of the square root of 2, and are told by their exponents.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from lite_nlp.compress.lnlp.encodings import EncodedTensor, column_exponents
from lite_nlp.export.rounding import MIN_OUTPUTS
from lite_nlp.export.runtime.scaled import Scaling, powers
from lite_nlp.models.adaptive import AdaptiveVocabulary
from lite_nlp.models.attention.softmax import CrossAttention, SelfAttention
from lite_nlp.models.build import Model
from lite_nlp.models.convolution import Convolution
from lite_nlp.models.embeddings import PlainVocabulary
from lite_nlp.models.language_model import LanguageModel
from lite_nlp.models.layers import DecoderLayer, EncoderLayer, FeedForward
from lite_nlp.models.sequence_classifier import SequenceClassifier
from lite_nlp.models.stacks import DecoderStack, EncoderStack
from lite_nlp.models.subformer import SafeInput
from lite_nlp.models.transformer import EncoderDecoder

__all__ = ["RowSteps", "move_column_steps"]

#: Exponents of the square root of 2.
_Exponents = NDArray[np.int16]

#: Children whose Linears are merged with others when a model runs, or are those of an unknown block: they stay.
_MIXERS: Final = frozenset({"attention", "cross"})


class RowSteps(NamedTuple):
    """A model whose quantized matrices have steps by row alone.

    Attributes:
        model: A copy, which computes what the model does.
        scalings: How its parameters are made of the model's, by name; those that are the same are not among them.
    """

    model: Model
    scalings: dict[str, Scaling]


def move_column_steps(model: Model, stored: Mapping[str, EncodedTensor]) -> RowSteps:
    """Move the steps of columns out of the matrices of a model that bundles have as integers.

    Matrices of linear attention, whose maps are merged into them, of recurrent layers and of adaptive embeddings stay
    as they are.

    Args:
        model: In evaluation mode; not changed.
        stored: Its tensors as its file has them; none for a model whose weights are floats.
    """
    steps = {name: exponents for name, tensor in stored.items() if (exponents := column_exponents(tensor)) is not None}
    steps = {name: exponents.astype(np.int16) for name, exponents in steps.items() if exponents.any()}
    if not steps or not isinstance(model, EncoderDecoder | LanguageModel | SequenceClassifier):
        return RowSteps(model, {})
    moved = copy.deepcopy(model)
    mover = _Mover(moved, steps)
    mover.run()
    return RowSteps(moved, mover.scale())


class _ScaledLinear(nn.Linear):
    """A Linear whose input is multiplied by factors (d,)."""

    factors: Tensor

    def __init__(self, linear: nn.Linear, exponents: _Exponents) -> None:
        super().__init__(linear.in_features, linear.out_features, bias=linear.bias is not None, device="meta")
        self.weight, self.bias = linear.weight, linear.bias
        self.register_buffer("factors", _factors(exponents), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x * self.factors, self.weight, self.bias)


class _Scale(nn.Module):
    """Multiplies its input (..., d) by factors (d,)."""

    factors: Tensor

    def __init__(self, exponents: _Exponents) -> None:
        super().__init__()
        self.register_buffer("factors", _factors(exponents), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factors


class _Mover:
    """One pass over a model, which is changed.

    Args:
        model: In evaluation mode.
        steps: Exponents of the columns' steps, by the names of matrices.
    """

    def __init__(self, model: nn.Module, steps: Mapping[str, _Exponents]) -> None:
        self.model = model
        self._parameters = dict(model.named_parameters())
        self._names = {id(parameter): name for name, parameter in self._parameters.items()}
        self._steps = steps
        self._taken: set[str] = set()
        self._rows: dict[str, _Exponents] = {}
        self._columns: dict[str, _Exponents] = {}

    def run(self) -> None:
        """Move the steps: first to where it costs nothing, then before the products."""
        blocks = list(_blocks(self.model))
        for block in blocks:
            if isinstance(block, FeedForward | SafeInput):
                self._to_rows(block.down_proj, block.up_proj, slice(None))
            elif isinstance(block, SelfAttention):
                self._to_rows(block.out_proj, block.in_proj, _last(block.in_proj, 3))
            elif isinstance(block, CrossAttention):
                self._to_rows(block.out_proj, block.memory_proj, _last(block.memory_proj, 2))
            elif isinstance(block, Convolution):
                self._move_within(block)
            elif isinstance(block, EncoderStack | DecoderStack):
                self._to_norms(block)
        self._to_vocabulary()
        for block in blocks:
            for name, child in list(block.named_children()):
                if (exponents := self._take(child)) is not None:
                    setattr(block, name, _ScaledLinear(cast(nn.Linear, child), exponents))

    def scale(self) -> dict[str, Scaling]:
        """Scale the parameters by all that was moved; returns by how much, by name."""
        scalings = {}
        for name in sorted(self._rows.keys() | self._columns.keys()):
            rows, columns = self._rows.get(name), self._columns.get(name)
            scalings[name] = Scaling(
                rows=None if rows is None else rows.astype(np.int8),
                columns=None if columns is None else columns.astype(np.int8),
            )
            parameter = self._parameters[name]
            parameter.data = torch.from_numpy(scalings[name].apply(parameter.detach().numpy()))
        return scalings

    def _take(self, linear: object) -> _Exponents | None:
        """Take the steps of a Linear's columns away from it; None if it has none, or none any more."""
        return self._take_of(linear.weight) if type(linear) is nn.Linear else None

    def _take_of(self, matrix: Tensor) -> _Exponents | None:
        name = self._names.get(id(matrix), "")
        # Of a few outputs it stays in fp32.
        if name not in self._steps or name in self._taken or len(matrix) < MIN_OUTPUTS:
            return None
        self._taken.add(name)
        self._add(self._columns, matrix, -self._steps[name])
        return self._steps[name]

    def _add(self, side: dict[str, _Exponents], parameter: Tensor, exponents: _Exponents) -> None:
        name = self._names[id(parameter)]
        side[name] = side.get(name, 0) + exponents

    def _scale_outputs(self, module: nn.Module, exponents: _Exponents) -> None:
        """Scale what a Linear or LayerNorm puts out."""
        for parameter in module.parameters(recurse=False):
            self._add(self._rows, parameter, exponents)

    def _to_rows(self, linear: nn.Module, before: nn.Module, rows: slice) -> _Exponents | None:
        """Move steps to some outputs of the Linear before; between are operations on each channel alone.

        Returns:
            What was moved; None if nothing was.
        """
        if type(before) is not nn.Linear or (exponents := self._take(linear)) is None:
            return None
        outputs = np.zeros(before.out_features, np.int16)
        outputs[rows] = exponents
        self._scale_outputs(before, outputs)
        return exponents

    def _move_within(self, block: Convolution) -> None:
        """Move the steps of a convolution's last Linear to its first, whose outputs make dynamic kernels too."""
        # Of the gated linear unit the first half is the one that is gated.
        exponents = self._to_rows(block.out_proj, block.in_proj, slice(block.inner_channels))
        if exponents is None or (kernels := block.kernel_proj) is None:
            return
        if (own := self._take(kernels)) is None:
            self._add(self._columns, kernels.weight, -exponents)
        else:
            block.kernel_proj = _ScaledLinear(kernels, own - exponents)

    def _to_norms(self, stack: nn.ModuleList) -> None:
        """Move the steps of what reads norms alone to them: of layers that share blocks, each has norms of its own."""
        layers = [cast(EncoderLayer | DecoderLayer, layer) for layer in stack]
        moved: dict[int, list[tuple[str, _Exponents | None]]] = {}
        for layer in layers:
            if not layer.pre_norm:
                return
            if layer.owner not in moved:
                moved[layer.owner] = list(self._norm_steps(layers[layer.owner]))
            for norm, exponents in moved[layer.owner]:
                if exponents is not None:
                    self._scale_outputs(getattr(layer, norm), exponents)

    def _norm_steps(self, layer: EncoderLayer | DecoderLayer) -> Iterator[tuple[str, _Exponents | None]]:
        """What is taken from the blocks of a layer, and the norm before each."""
        mixer, branches = layer.mixer, []
        for width, branch in zip(mixer.widths, (mixer.attention, mixer.convolution), strict=True):
            taken = self._take(branch.in_proj) if isinstance(branch, SelfAttention | Convolution) else None
            branches.append(np.zeros(width, np.int16) if taken is None else taken)
        yield "mixer_norm", np.concatenate(branches)
        cross = getattr(layer, "cross", None)
        if isinstance(cross, CrossAttention) and not layer.adapts_cross:
            yield "cross_norm", self._take(cross.query_proj)
        yield "ffn_norm", self._take(layer.ffn.up_proj)

    def _to_vocabulary(self) -> None:
        """Move the steps of tables to the scale of their rows and to what the output's product reads."""
        model = self.model
        if isinstance(model, EncoderDecoder):
            self._to_scales(src_scale=model.src_embedding.weight, tgt_scale=model.tgt_table)
            self._to_output(model.output_table, model.output_proj, "decoder_norm")
        elif isinstance(model, SequenceClassifier):
            self._to_scales(scale=model.embedding.weight)
        elif isinstance(model, LanguageModel) and isinstance(model.vocabulary, PlainVocabulary):
            self._to_scales(scale=model.vocabulary.table.weight)
            self._to_output(model.vocabulary.output_table, model.vocabulary.output_proj, "norm")

    def _to_scales(self, **tables: Tensor) -> None:
        """Multiply rows that are looked up; the scales have the names given."""
        for name, table in tables.items():
            if (exponents := self._taken_of(table)) is not None:
                scale = getattr(self.model, name)
                delattr(self.model, name)
                self.model.register_buffer(name, scale * _factors(exponents), persistent=False)

    def _to_output(self, table: Tensor, projection: nn.Module | None, norm: str) -> None:
        """Scale what is multiplied by the output table: the projection to its width, or else what the norm gives."""
        if (exponents := self._taken_of(table)) is None:
            return
        last = projection[-1] if isinstance(projection, nn.Sequential) else projection or getattr(self.model, norm)
        if isinstance(last, nn.Linear | nn.LayerNorm):
            self._scale_outputs(last, exponents)
        else:
            setattr(self.model, norm, nn.Sequential(last, _Scale(exponents)))

    def _taken_of(self, table: Tensor) -> _Exponents | None:
        """The steps of a table's columns, which all its uses need."""
        self._take_of(table)
        name = self._names[id(table)]
        return self._steps[name] if name in self._taken else None


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """A module and those within it whose Linears are called, and no more than that."""
    yield module
    for name, child in module.named_children():
        is_merged = name in _MIXERS and not isinstance(child, SelfAttention | CrossAttention)
        if not is_merged and not isinstance(child, AdaptiveVocabulary):
            yield from _blocks(child)


def _last(linear: nn.Module, parts: int) -> slice:
    """The last of the parts that a Linear's outputs are."""
    outputs = cast(nn.Linear, linear).out_features
    return slice(outputs - outputs // parts, outputs)


def _factors(exponents: _Exponents) -> Tensor:
    return torch.from_numpy(powers(exponents))
