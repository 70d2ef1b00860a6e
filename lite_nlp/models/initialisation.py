"""Initial weights: for each scheme a table from role to rule, and the one function that draws.

A rule gives the distribution of the entries of one map from its inputs d and outputs k (fused projections are drawn as
separate ones). Uniform distributions have the bound sqrt(3) std. Xavier is std^2 = 2 / (d + k) (Glorot and Bengio,
2010); the default of ``torch.nn.Linear`` is std^2 = 1 / (3 d), of the weight and the bias alike. Where a published
scheme's code has no such part, the part is drawn as in ``xavier``.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn

from lite_nlp.core.errors import ModelError
from lite_nlp.core.suggestions import expected_one_of
from lite_nlp.models.linear import LowRankLinear, QuaternionLinear, R2D2Linear
from lite_nlp.models.roles import Role, Site, marked_sites
from lite_nlp.models.stacks import DecoderStack, EncoderStack

__all__ = ["SCHEMES", "Depth", "Draw", "Scheme", "initialise"]


class Draw(NamedTuple):
    """The distribution of entries: uniform, or normal, around a mean."""

    std: float
    mean: float = 0.0
    normal: bool = False


class Depth(NamedTuple):
    """Where in a stack a block is.

    Attributes:
        layer: Number of its layer, from 1; of shared blocks that of the first.
        residuals: Residual connections of the whole stack.
        pre_norm: Whether LayerNorms come before the blocks.
    """

    layer: int
    residuals: int
    pre_norm: bool


Rule = Callable[[Site, Depth | None], Draw]


def _xavier(*, gain: float = 1.0) -> Rule:
    return lambda site, _: Draw(gain * math.sqrt(2.0 / (site.inputs + site.outputs)))


def _linear_default(site: Site, _: Depth | None) -> Draw:
    return Draw((3.0 * site.inputs) ** -0.5)


def _lstm_default(site: Site, _: Depth | None) -> Draw:
    """The default of ``torch.nn.LSTM``: uniform within H^-1/2 of its H hidden channels, biases too."""
    return Draw((3.0 * site.outputs) ** -0.5)


def _by_outputs(site: Site, _: Depth | None) -> Draw:
    """Suits rows that are scaled by the root of the channels, and an output projection from them."""
    return Draw(site.outputs**-0.5, normal=True)


def _by_inputs(site: Site, _: Depth | None) -> Draw:
    return Draw(site.inputs**-0.5, normal=True)


def _grouped_xavier(site: Site, _: Depth | None) -> Draw:
    """Xavier of a grouped convolution's tensor (H, 1, K), whose heads count as outputs of K entries each."""
    return Draw(math.sqrt(2.0 / (site.inputs + site.inputs * site.outputs)))


def _wide_xavier(site: Site, _: Depth | None) -> Draw:
    """Xavier as if there were twice as many outputs as inputs."""
    return Draw(math.sqrt(2.0 / (3.0 * site.inputs)))


def _constant(value: float) -> Rule:
    return lambda *_: Draw(0.0, mean=value)


def _small_normal(*_: object) -> Draw:
    return Draw(0.02, normal=True)


def _scaled(rule: Rule, *, is_output: bool) -> Rule:
    """``rule`` times the factor of depth.

    Post-norm: every map of layer l times l^-1/2 (Zhang et al. 2019, "Improving Deep Transformer with Depth-Scaled
    Initialization and Merged Attention", with alpha = 1). Pre-norm: the maps onto a residual connection times N^-1/2,
    with N residual connections in the stack (GPT-2, Radford et al. 2019, section 2.3).
    """

    def scaled(site: Site, depth: Depth | None) -> Draw:
        draw = rule(site, depth)
        if depth is None or (depth.pre_norm and not is_output):
            return draw
        return draw._replace(std=draw.std * (depth.residuals if depth.pre_norm else depth.layer) ** -0.5)

    return scaled


def _draw(tensor: Tensor, draw: Draw) -> None:
    if draw.std == 0.0:
        nn.init.constant_(tensor, draw.mean)
    elif draw.normal:
        nn.init.normal_(tensor, draw.mean, draw.std)
    else:
        bound = math.sqrt(3.0) * draw.std
        nn.init.uniform_(tensor, draw.mean - bound, draw.mean + bound)


def _draw_equal_factors(layer: nn.Module, site: Site, draw: Draw) -> None:
    """Factors whose product has, entry by entry, the variance of ``draw``."""
    match layer:
        case R2D2Linear():
            # Orthogonal, as those of the Hamilton product are: H has the variance of the components.
            for block in layer.diffusion:
                nn.init.orthogonal_(block)
            _draw(layer.components, draw)
        case QuaternionLinear():
            _draw(layer.components, draw)
        case LowRankLinear():
            # The inner channels keep the variance of the inputs; an entry of the product sums r terms.
            rank = layer.down_proj.out_features
            _draw(layer.down_proj.weight, draw._replace(std=site.inputs**-0.5))
            _draw(layer.up_proj.weight, draw._replace(std=draw.std * math.sqrt(site.inputs / rank)))


def _draw_published_factors(layer: nn.Module, site: Site, _: Draw) -> None:
    """Each factor Xavier-uniform by its own shape, as in the code of the R2D2 paper's later title.

    A is a tensor (n, 1, n, n), of n^2 inputs and outputs in TensorFlow's reading, and S a matrix (d / n, k), so that H
    has std^2 = 2 / (d + n k).
    """
    match layer:
        case R2D2Linear():
            _draw(layer.diffusion, Draw(1.0 / layer.n))
            _draw(layer.components, _xavier()(replace(site, inputs=site.inputs // layer.n), None))
        case QuaternionLinear():
            _draw(layer.components, _xavier()(replace(site, inputs=site.inputs // 4), None))
        case LowRankLinear():
            rank = layer.down_proj.out_features
            _draw(layer.down_proj.weight, _xavier()(replace(site, outputs=rank), None))
            _draw(layer.up_proj.weight, _xavier()(replace(site, inputs=rank), None))


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Rules by role.

    Attributes:
        weights: Of weights, and of parameters that stand alone.
        biases: Of the biases beside weights; zero where a role is not listed.
        draw_factors: Draws a factorized Linear, given the rule's draw of the dense weight.
    """

    weights: Mapping[Role, Rule]
    biases: Mapping[Role, Rule] = field(default_factory=dict)
    draw_factors: Callable[[nn.Module, Site, Draw], None] = _draw_equal_factors


#: Xavier, but for what every published code draws in another way.
_XAVIER: Final[dict[Role, Rule]] = {
    **dict.fromkeys(Role, _xavier()),
    Role.EMBEDDING: _by_outputs,
    # The variance of one Xavier-uniform matrix (3 D, D) for all three (fairseq).
    Role.QUERY_KEY_VALUE: _xavier(gain=2**-0.5),
    Role.LINEAR_QUERY_KEY_VALUE: _xavier(gain=2**-0.5),
    # As in the T2R code.
    Role.FEATURE_MAP: _linear_default,
    Role.FEATURE_SCALE: _constant(1.0),
    # Baevski and Auli (2019).
    Role.ADAPTIVE_TABLE: _by_outputs,
    Role.LSTM_BIAS: _constant(0.0),
}
_MAP_BIAS: Final[dict[Role, Rule]] = {Role.FEATURE_MAP: _linear_default}

#: fairseq's modules: q, k and v leave ``nn.Linear`` their biases.
_FAIRSEQ: Final[dict[Role, Rule]] = {
    **_XAVIER,
    Role.OUTPUT_TABLE: _by_inputs,
    Role.KERNEL_GENERATOR: _linear_default,
    Role.STATIC_KERNEL: _grouped_xavier,
}
_FAIRSEQ_BIASES: Final[dict[Role, Rule]] = {
    **_MAP_BIAS,
    Role.QUERY_KEY_VALUE: _linear_default,
    Role.LINEAR_QUERY_KEY_VALUE: _linear_default,
}

_FFN: Final = (Role.FFN_UP, Role.FFN_DOWN, Role.FFN_EXTRA)
#: fairseq 0.10: feed-forward blocks too are as ``nn.Linear`` leaves them.
_FAIRSEQ_010: Final[dict[Role, Rule]] = {**_FAIRSEQ, **dict.fromkeys(_FFN, _linear_default)}
_FAIRSEQ_010_BIASES: Final[dict[Role, Rule]] = {**_FAIRSEQ_BIASES, **dict.fromkeys(_FFN, _linear_default)}

#: Linears outside attention that are a ``torch.nn.Linear`` in a model of PyTorch's own modules.
_PLAIN_LINEARS: Final = (
    *_FFN,
    Role.CONV_IN,
    Role.CONV_OUT,
    Role.KERNEL_GENERATOR,
    Role.WIDTH_PROJECTION,
    Role.OUTPUT_TABLE,
    Role.ADAPTIVE_PROJECTION,
    Role.ADAPTIVE_CLUSTERS,
    Role.CLASSIFIER_HIDDEN,
    Role.CLASSIFIER_OUTPUT,
)

_RESIDUAL_OUTPUTS: Final = (
    Role.ATTENTION_OUTPUT,
    Role.LINEAR_ATTENTION_OUTPUT,
    Role.FFN_DOWN,
    Role.FFN_EXTRA,
    Role.CONV_OUT,
)
_LAYER_MAPS: Final = (
    Role.QUERY_KEY_VALUE,
    Role.LINEAR_QUERY_KEY_VALUE,
    Role.FFN_UP,
    Role.CONV_IN,
    *_RESIDUAL_OUTPUTS,
)

#: Schemes by the value of ``model.init``, with the names of ``lite_nlp.config.kinds.INIT_SCHEMES``.
SCHEMES: Final[dict[str, Scheme]] = {
    # Vaswani et al. (2017) as in tensor2tensor and fairseq at first: all maps Xavier-uniform, all biases zero.
    "xavier": Scheme(weights=_XAVIER, biases=_MAP_BIAS),
    # The Lite Transformer's released code, without its compiled kernels: with them both roles are as in ``xavier``.
    "lite-transformer": Scheme(weights=_FAIRSEQ, biases=_FAIRSEQ_BIASES),
    # The same code's IWSLT models.
    "lite-transformer-iwslt": Scheme(weights={**_FAIRSEQ, **dict.fromkeys(_FFN, _wide_xavier)}, biases=_FAIRSEQ_BIASES),
    # The Subformer's released code (fairseq 0.10) without its flag for ``normal``.
    "subformer": Scheme(weights=_FAIRSEQ_010, biases=_FAIRSEQ_010_BIASES),
    # T2R's released code (fairseq 0.10): linear attention with the gain init_scale^-1/2, 6 in its example.
    "t2r": Scheme(
        weights={
            **_FAIRSEQ_010,
            **dict.fromkeys((Role.LINEAR_QUERY_KEY_VALUE, Role.LINEAR_ATTENTION_OUTPUT), _xavier(gain=6**-0.5)),
        },
        biases=_FAIRSEQ_010_BIASES,
    ),
    # The code of Zhang et al. (2021), the later title of the R2D2 paper (tensor2tensor).
    "r2d2": Scheme(
        weights={
            **_XAVIER,
            Role.QUERY_KEY_VALUE: _xavier(),
            Role.LINEAR_QUERY_KEY_VALUE: _xavier(),
            Role.OUTPUT_TABLE: _by_inputs,
        },
        biases=_MAP_BIAS,
        draw_factors=_draw_published_factors,
    ),
    # torch.nn.Linear, MultiheadAttention and LSTM as they are; tables are scaled by the root of the channels here.
    "torch": Scheme(
        weights={
            **_XAVIER,
            **dict.fromkeys((*_PLAIN_LINEARS, Role.ATTENTION_OUTPUT, Role.LINEAR_ATTENTION_OUTPUT), _linear_default),
            **dict.fromkeys((Role.LSTM_INPUT, Role.LSTM_HIDDEN, Role.LSTM_BIAS), _lstm_default),
        },
        biases={**_MAP_BIAS, **dict.fromkeys(_PLAIN_LINEARS, _linear_default)},
    ),
    # BERT and GPT-2, and the Subformer's text: N(0, 0.02) for all weights, all biases zero.
    "normal": Scheme(
        weights={
            **dict.fromkeys(Role, _small_normal),
            Role.FEATURE_SCALE: _constant(1.0),
            Role.LSTM_BIAS: _constant(0.0),
        }
    ),
    # ``subformer`` times a factor of depth.
    "depth-scaled": Scheme(
        weights={
            **_FAIRSEQ_010,
            **{role: _scaled(_FAIRSEQ_010[role], is_output=role in _RESIDUAL_OUTPUTS) for role in _LAYER_MAPS},
        },
        biases=_FAIRSEQ_010_BIASES,
    ),
}


@torch.no_grad()
def initialise(model: nn.Module, scheme: str) -> None:
    """Draw every parameter of ``model`` that has a role, in the order of the modules, with torch's random generator.

    Parameters without a role keep what their constructors drew: LayerNorms, and modules of a user's own.

    Args:
        model: A model, or a part of one.
        scheme: A key of ``SCHEMES``.

    Raises:
        ModelError: If there is no such scheme.
    """
    if scheme not in SCHEMES:
        raise ModelError(f"initialisation: {expected_one_of(SCHEMES, scheme)}")
    rules = SCHEMES[scheme]
    depths = _depths(model)
    for target, site in marked_sites(model):
        depth = depths.get(id(target))
        draw = rules.weights[site.role](site, depth)
        if isinstance(target, nn.Parameter):
            _draw(target, draw)
            continue
        if isinstance(weight := getattr(target, "weight", None), Tensor):
            _draw(weight, draw)
        else:
            # A kind of a user's own keeps what its constructor drew.
            rules.draw_factors(target, site, draw)
        if isinstance(bias := getattr(target, "bias", None), Tensor):
            _draw(bias, rules.biases.get(site.role, _constant(0.0))(site, depth))


def _depths(model: nn.Module) -> dict[int, Depth]:
    """The depth of every module inside a stack, by its identity."""
    depths: dict[int, Depth] = {}
    for stack in model.modules():
        if isinstance(stack, (EncoderStack, DecoderStack)):
            residuals = sum(3 if hasattr(layer, "cross_norm") else 2 for layer in stack)
            for number, layer in enumerate(stack, start=1):
                depth = Depth(layer=number, residuals=residuals, pre_norm=bool(layer.pre_norm))
                depths.update((id(module), depth) for module in layer.modules())
    return depths
