"""Cost of each ATen operator: a formula on shapes if it multiplies and accumulates, a reason if it does not.

An operator is looked up in three places. :data:`FORMULAS` says how many Mult-Adds it takes. Multiplications, additions
and sums are left to :mod:`lite_nlp.budget.traced.contractions`, since only together do they become Mult-Adds.
:func:`is_free` knows those that take none, by group, each group with its reason. What is in none of them has no known
cost, and the counter refuses it by name: nothing is zero because it was overlooked. Formulas for further operators come
from :func:`~lite_nlp.budget.traced.registration.register_operator`.

A product counts in full, whatever its numbers are: attention under a mask as the whole rectangle, the taps of a
convolution also where they fall on padding. Biases, residual sums, softmax and activations count nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from lite_nlp.budget.traced.work import WorkKind
from lite_nlp.core.errors import CountError

__all__ = ["FORMULAS", "FREE", "Call", "Formula", "base_name", "bind_arguments", "is_free", "is_free_name"]


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call of an operator.

    Attributes:
        arguments: All arguments by the names of the operator's schema, defaults filled in.
        result: What it returned.
    """

    arguments: Mapping[str, Any]
    result: Any

    def shape(self, name: str) -> tuple[int, ...]:
        """Shape of the tensor that was given as argument ``name``.

        Raises:
            CountError: If the operator has no argument of that name, or it was given no tensor.
        """
        argument = self.arguments.get(name)
        if not isinstance(argument, Tensor):
            tensors = ", ".join(key for key, value in self.arguments.items() if isinstance(value, Tensor)) or "none"
            raise CountError(f"argument of an operator: expected the name of a tensor ({tensors}), found {name!r}")
        return tuple(argument.shape)

    def result_size(self) -> int:
        """Number of elements of the result, of the first one if there are several.

        Raises:
            CountError: If the operator returned no tensor.
        """
        results = self._results()
        if not results:
            raise CountError(f"result of an operator: expected a tensor, found {self.result!r}")
        return prod(results[0].shape)

    def is_complex(self) -> bool:
        """Whether it works on complex numbers, of which one product is several."""
        return any(result.is_complex() for result in self._results())

    def _results(self) -> list[Tensor]:
        """The tensors that it returned: none if it writes in place and returns nothing, or returns a number."""
        results = self.result if isinstance(self.result, list | tuple) else (self.result,)
        return [result for result in results if isinstance(result, Tensor)]


#: From a call to its Mult-Adds.
Formula = Callable[[Call], int]


def _product(left: str) -> Formula:
    """A matrix product: each element of the result sums over the last axis of the argument ``left``."""
    return lambda call: call.result_size() * call.shape(left)[-1]


def _size_of(name: str) -> Formula:
    """One for each element of the argument ``name``."""
    return lambda call: prod(call.shape(name))


def _batches_summed(call: Call) -> int:
    """``addbmm``: the products of all the batches fall onto one matrix."""
    batches, _, inner = call.shape("batch1")
    return call.result_size() * batches * inner


def _attention(call: Call) -> int:
    """Fused attention of (..., T, E) queries over (..., S, E) keys and (..., S, F) values: T x S x (E + F) per head.

    Heads that share keys and values (grouped queries) still multiply them on their own, so the queries' heads count.
    """
    query, key, value = call.shape("query"), call.shape("key"), call.shape("value")
    return prod(query[:-1]) * key[-2] * (query[-1] + value[-1])


def _attention_block(batch: int, query_tokens: int, key_tokens: int, width: int) -> int:
    """Four projections of ``width`` channels and the attention between them."""
    projections = 2 * (query_tokens + key_tokens) * width * width
    return batch * (projections + 2 * query_tokens * key_tokens * width)


def _native_attention(call: Call) -> int:
    batch, query_tokens, width = call.shape("query")
    return _attention_block(batch, query_tokens, call.shape("key")[1], width)


def _encoder_layer(call: Call) -> int:
    """A whole encoder layer in one operator: attention block and two feed-forward products."""
    batch, tokens, width = call.shape("src")
    ffn_width = call.shape("ffn_weight_1")[0]
    return _attention_block(batch, tokens, tokens, width) + batch * tokens * 2 * width * ffn_width


def _encoder_layer_norms(call: Call) -> int:
    return 2 * prod(call.shape("src"))


def _convolution(call: Call) -> int:
    """Each output element sums over its group's input channels and all taps; transposed, each input feeds as many.

    ``weight`` is (output channels, input channels per group, taps...), or (input channels, output channels per group,
    taps...) if transposed.
    """
    per_position = prod(call.shape("weight")[1:])
    if call.arguments.get("transposed", False):
        return prod(call.shape("input")) * per_position
    return call.result_size() * per_position


def _time_convolution(call: Call) -> int:
    """``conv_tbc``, whose weight is (taps, input channels, output channels)."""
    taps, in_channels, _ = call.shape("weight")
    return call.result_size() * taps * in_channels


def _recurrent_layer(call: Call) -> int:
    """One direction of an LSTM or GRU layer: input and hidden weights once per token."""
    tokens = prod(call.shape("input")[:-1])
    return tokens * (prod(call.shape("weight0")) + prod(call.shape("weight1")))


def _trilinear(call: Call) -> int:
    """``bilinear``: for each output, the outer product of both inputs meets a weight matrix; two factors per term."""
    outputs, in1, in2 = call.shape("i2")[-3:]
    rows = prod(call.shape("i1")[:-1])
    # First the weights with one input, then the rest with the other one.
    return rows * outputs * (in1 * in2 + in2)


def _embedding_bag(call: Call) -> int:
    """Rows of a table, looked up and reduced; products only where each look-up has a weight of its own."""
    if call.arguments["per_sample_weights"] is None:
        return 0
    return prod(call.shape("indices")) * call.shape("weight")[-1]


#: From operator, as named by :func:`base_name`, to the kinds of work in it and their formulas.
FORMULAS: dict[str, tuple[tuple[WorkKind, Formula], ...]] = {
    **{
        f"aten.{name}": (("matmul", _product(left)),)
        for name, left in {
            "mm": "self",
            "bmm": "self",
            "mv": "self",
            "linear": "input",
            "mkldnn_linear": "self",
            "addmm": "mat1",
            "_addmm_activation": "mat1",
            "addmv": "mat",
            "baddbmm": "batch1",
            "_int_mm": "self",
            "_scaled_mm": "self",
            "_weight_int8pack_mm": "self",
        }.items()
    },
    "aten.addbmm": (("matmul", _batches_summed),),
    "aten.dot": (("matmul", _size_of("self")),),
    "aten.vdot": (("matmul", _size_of("self")),),
    # The outer product of two vectors, added onto a matrix.
    "aten.addr": (("matmul", lambda call: call.result_size()),),
    "aten._trilinear": (("matmul", _trilinear),),
    **{
        f"aten._scaled_dot_product_{variant}": (("matmul", _attention),)
        for variant in (
            "cudnn_attention",
            "efficient_attention",
            "flash_attention",
            "flash_attention_for_cpu",
            "fused_attention_overrideable",
        )
    },
    "aten._native_multi_head_attention": (("matmul", _native_attention),),
    "aten._transformer_encoder_layer_fwd": (("matmul", _encoder_layer), ("layer_norm", _encoder_layer_norms)),
    "aten.mkldnn_rnn_layer": (("matmul", _recurrent_layer),),
    "aten._embedding_bag": (("contraction", _embedding_bag),),
    "aten._embedding_bag_forward_only": (("contraction", _embedding_bag),),
    "aten.convolution": (("convolution", _convolution),),
    "aten._convolution": (("convolution", _convolution),),
    "aten.convolution_overrideable": (("convolution", _convolution),),
    "aten.conv_tbc": (("convolution", _time_convolution),),
    **{
        f"aten.{name}": (("layer_norm", _size_of("input")),)
        for name in (
            "native_layer_norm",
            "native_group_norm",
            "_fused_rms_norm",
            "rms_norm",
        )
    },
    **{
        f"aten.{name}": (("batch_norm", _size_of("input")),)
        for name in (
            "native_batch_norm",
            "_native_batch_norm_legit",
            "_native_batch_norm_legit_no_training",
        )
    },
}


def _names(listed: str) -> frozenset[str]:
    return frozenset(f"aten.{name}" for name in listed.split())


#: Operators without Mult-Adds, by the reason why. Those that torch itself marks as views, as elementwise or as
#: reductions need no entry here.
FREE: dict[str, frozenset[str]] = {
    "moves, repeats or selects numbers": _names(
        "_conj_copy _pack_padded_sequence _pad_packed_sequence _reshape_alias _reshape_copy _to_copy _unsafe_index "
        "_unsafe_index_put _unsafe_masked_index _unsafe_view alias block_diag cat channel_shuffle clone col2im "
        "constant_pad_nd contiguous copy detach diag_embed diagonal_scatter embedding fill flip gather im2col index "
        "index_copy index_fill index_put index_select lift lift_fresh lift_fresh_copy masked_fill "
        "masked_scatter masked_select native_channel_shuffle nonzero one_hot pixel_shuffle pixel_unshuffle "
        "reflection_pad1d reflection_pad2d reflection_pad3d repeat repeat_interleave replication_pad1d "
        "replication_pad2d replication_pad3d resize roll rot90 scatter scatter_reduce select_scatter set "
        "slice_scatter split split_with_sizes squeeze stack t take transpose tril triu unbind unfold unsafe_chunk "
        "unsafe_split unsafe_split_with_sizes unsqueeze upsample_nearest1d upsample_nearest2d zero"
    ),
    "makes numbers from none": _names(
        "_efficientzerotensor arange bernoulli cauchy empty empty_like empty_permuted empty_strided exponential eye "
        "full full_like geometric linspace log_normal logspace multinomial native_dropout new_empty new_empty_strided "
        "new_full new_ones new_zeros normal ones ones_like rand rand_like randint randint_like randn randn_like "
        "random randperm range scalar_tensor tril_indices triu_indices uniform zeros zeros_like"
    ),
    "a few operations per element, such as softmax, activations, losses and quantization": _names(
        "_log_softmax _masked_softmax _prelu_kernel _safe_softmax _softmax _thnn_fused_gru_cell _thnn_fused_lstm_cell "
        "_weight_norm_interface binary_cross_entropy dequantize fake_quantize_per_channel_affine_cachemask "
        "fake_quantize_per_tensor_affine_cachemask glu hardswish huber_loss log_sigmoid_forward mse_loss "
        "nll_loss2d_forward nll_loss_forward quantize_per_channel quantize_per_tensor rrelu_with_noise "
        "smooth_l1_loss soft_margin_loss"
    ),
    "compares, sorts, or reduces without a product": _names(
        "_adaptive_avg_pool2d _adaptive_avg_pool3d _cummax_helper _cummin_helper _unique2 adaptive_max_pool2d "
        "adaptive_max_pool3d argsort avg_pool1d avg_pool2d avg_pool3d bincount bucketize cumprod equal isin kthvalue "
        "logcumsumexp max_pool2d_with_indices max_pool3d_with_indices median mode nanmedian searchsorted sort topk "
        "unique_consecutive unique_dim"
    ),
    "asks about a tensor or asserts something of it": _names(
        "_assert_async _assert_scalar _assert_tensor_metadata _fused_sdp_choice _has_same_storage_numel "
        "_local_scalar_dense is_same_size sym_is_contiguous sym_numel sym_size sym_storage_offset sym_stride"
    ),
    "marks a stretch of time for a profiler": frozenset(
        {"profiler._record_function_enter", "profiler._record_function_enter_new", "profiler._record_function_exit"}
    ),
}

#: Libraries of operators that only round numbers to fewer bits and back.
_QUANTIZERS = ("quantized_decomposed.", "torchao.")
_QUANTIZER_VERBS = ("quantize", "dequantize", "choose_qparams", "fake_quantize")

_FREE_NAMES = frozenset[str]().union(*FREE.values())
_FREE_TAGS = frozenset({torch.Tag.pointwise, torch.Tag.reduction, torch.Tag.view_copy})


@cache
def base_name(operator: OpOverload) -> str:
    """Library and name of ``operator``, such as ``aten.add`` for all of ``add``, ``add_`` and their overloads.

    Variants that write in place or that copy instead of viewing cost what the plain ones do.
    """
    library, _, name = operator._schema.name.partition("::")
    if not name.startswith("__"):
        name = name.removesuffix("_")
    return f"{library}.{name.removesuffix('_copy')}" if torch.Tag.view_copy in operator.tags else f"{library}.{name}"


def bind_arguments(operator: OpOverload, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the operator's schema, with its defaults."""
    names = [argument.name for argument in operator._schema.arguments]
    defaults = {
        argument.name: argument.default_value for argument in operator._schema.arguments if argument.has_default_value()
    }
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def is_free(operator: OpOverload) -> bool:
    """Whether ``operator`` is known to take no Mult-Adds."""
    name = base_name(operator)
    if name in _FREE_NAMES:
        return True
    if name.startswith(_QUANTIZERS):
        return name.partition(".")[2].startswith(_QUANTIZER_VERBS)
    # An unknown library may tag its operators as it likes.
    if not name.startswith(("aten.", "prim.")):
        return False
    return any(variant.is_view or not _FREE_TAGS.isdisjoint(variant.tags) for variant in _variants(operator, name))


def is_free_name(name: str) -> bool:
    """Whether the operator with the base name ``name``, in any overload, is known to take no Mult-Adds."""
    library, _, operator = name.partition(".")
    packet = getattr(getattr(torch.ops, library), operator, None)
    return packet is not None and any(is_free(getattr(packet, overload)) for overload in packet.overloads())


def _variants(operator: OpOverload, name: str) -> Iterator[OpOverload]:
    """``operator`` itself and the plain ones of that name: torch does not tag all variants alike."""
    yield operator
    plain = getattr(torch.ops.aten, name.partition(".")[2], None)
    if plain is not None:
        yield from (getattr(plain, overload) for overload in plain.overloads())
