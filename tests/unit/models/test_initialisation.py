"""Every weight and bias of a model of each family against the closed form of its scheme."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from lite_nlp.config.kinds import FAMILY_INIT, INIT_SCHEMES, LinearSpec
from lite_nlp.config.model import ModelConfig
from lite_nlp.config.preset import load_presets, parse_model
from lite_nlp.core.errors import ConfigError, ModelError
from lite_nlp.models.attention.feature_maps import LearnedFeatures
from lite_nlp.models.build import build_model
from lite_nlp.models.initialisation import SCHEMES, initialise
from lite_nlp.models.linear import LowRankLinear, QuaternionLinear, R2D2Linear, build_linear
from lite_nlp.models.roles import Role, marked_sites
from tests.unit.models.conftest import VARIANTS, small_config
from tests.unit.models.initial_laws import EXPECTED, PARTS, Law, torch_default, xavier, zero

SIZES: dict[str, Any] = {
    "embed_dim": 64, "ffn_dim": 96, "num_heads": 4, "cross_num_heads": 4, "src_vocab_size": 300, "tgt_vocab_size": 300,
}  # fmt: skip
LM = {"architecture": "language-model", **{key: SIZES[key] for key in ("embed_dim", "ffn_dim", "num_heads")}}
PAIR = {"architecture": "pair-classifier", "src_vocab_size": 300, "num_classes": 5, "embed_dim": 64, "ffn_dim": 96}
TEXT = {"architecture": "sequence-classifier", "src_vocab_size": 300, "num_classes": 5, "ffn_dim": 96, "embed_dim": 64}
WIDE = {"sandwich_dim": 80, "sandwich_ffn_dim": 112}


def _variant(name: str, **changes: Any) -> dict[str, Any]:
    return {**VARIANTS[name], **changes}


MODELS: dict[str, Callable[[str], ModelConfig]] = {
    name: lambda scheme, options=options: small_config(**{**options, **SIZES}, init=scheme)  # type: ignore[misc]
    for name, options in {
        "transformer": _variant("transformer"),
        "lite-transformer": _variant("lsra-dynamic-glu"),
        "lite-transformer-untied": _variant("lsra-static", tie_embeddings="none"),
        "lightconv": _variant("lightconv"),
        "subformer": _variant("subformer", embedding_dim=48, **WIDE),
        "subformer-pre-norm": _variant("sandwich-wide-pre-norm", **WIDE),
        "subformer-extra": _variant("independent-ffn"),
        "subformer-linear": _variant("embedding-two-layer", embedding_dim=48),
        "t2r": _variant("t2r-every-second"),
        "random-features": _variant("random-features"),
        "expanded": _variant("transformer", attention_expansion=2),
        "r2d2": _variant("r2d2"),
        "quaternion": _variant("lsra-quaternion"),
        "low-rank": _variant("low-rank", linear_rank=24),
    }.items()
} | {
    name: lambda scheme, options=options: parse_model({**options, "init": scheme})  # type: ignore[misc]
    for name, options in {
        "language-model": {**LM, "family": "transformer", "tie_embeddings": "none", "tgt_vocab_size": 300},
        "adaptive-language-model": {
            **LM, "family": "transformer", "tgt_vocab_size": 900,
            "embedding": "adaptive", "adaptive_cutoffs": (100, 300),
        },
        "pair-classifier": {**PAIR, "family": "lstm", "embedding_dim": 48},
        "r2d2-pair-classifier": {**PAIR, "family": "r2d2", "embedding_dim": 48, "lstm_linear": "r2d2", "linear_n": 4},
        "text-classifier": {**TEXT, "family": "transformer"},
    }.items()
}  # fmt: skip


def _part(name: str) -> str:
    return next(part for pattern, part in PARTS if re.search(pattern, name))


def _widths(name: str, parameter: Tensor, model: nn.Module) -> tuple[int, int]:
    """Inputs and outputs of one map."""
    owner = model.get_submodule(name.rpartition(".")[0])
    if isinstance(owner, nn.Embedding):
        # Rows are scaled by the root of the model's width (in a pair-classifier not at all).
        config: Any = model.config
        return owner.num_embeddings, config.table_dim if "pair" in config.architecture else config.embed_dim
    if isinstance(owner, LearnedFeatures):
        return owner.weight.shape[2], owner.weight.shape[1]
    if isinstance(owner, nn.Linear | R2D2Linear | QuaternionLinear | LowRankLinear):
        fused = {"in_proj": 3, "memory_proj": 2} if _part(name) == "qkv" else {}
        parts = next((count for key, count in fused.items() if f".{key}" in name), 1)
        return owner.in_features, owner.out_features // parts
    if _part(name) == "kernel":
        return parameter.shape[1], parameter.shape[0]
    return parameter.shape[0], parameter.shape[1]


def _depth_factor(name: str, model: nn.Module) -> float:
    """Post-norm: 1 / sqrt of the layer's number on all its maps. Pre-norm: residual outputs by all residuals."""
    found = re.match(r"(encoder|decoder|layers)\.(\d+)\.(?!entry|cross_e|.*(kernel|feature_map))", name)
    if found is None or name.endswith("bias"):
        return 1.0
    config: Any = model.config
    if not config.pre_norm:
        return (int(found[2]) + 1) ** -0.5
    residuals = {"encoder": 2, "decoder": 3, "layers": 2}[found[1]] * len(model.get_submodule(found[1]))
    return residuals**-0.5 if re.search(r"out_proj|down_proj|extra_proj", name) else 1.0


def _law(name: str, parameter: Tensor, model: nn.Module, scheme: str) -> Law:
    """The distribution of a parameter that is the weight, or the bias, of a dense map."""
    part = _part(name)
    weights, biases = EXPECTED[scheme]
    d, k = _widths(name, parameter, model)
    if name.endswith("bias"):
        return biases.get(part, zero)(d, k)
    mixer = model.get_submodule(name.rpartition(".")[0].rpartition(".")[0])
    if hasattr(mixer, "feature_map") and f"linear {part}" in weights:
        part = f"linear {part}"
    law = weights[part](d, k)
    return law._replace(std=law.std * _depth_factor(name, model)) if scheme == "depth-scaled" else law


def _factor_laws(layer: nn.Module, dense: Law, d: int, k: int, scheme: str) -> Iterator[tuple[Tensor, Law]]:
    """The factors of a Linear (k per part) whose dense weight has the law ``dense``."""
    published = scheme == "r2d2"
    match layer:
        case R2D2Linear():
            if published:
                yield layer.diffusion, Law(1 / layer.n)
            yield layer.components, xavier(d // layer.n, k) if published else dense
        case QuaternionLinear():
            yield layer.components, xavier(d // 4, k) if published else dense
        case LowRankLinear():
            rank = layer.down_proj.out_features
            inner = xavier(d, rank) if published else Law(d**-0.5, dense.normal)
            yield layer.down_proj.weight, inner
            # An entry of the product sums ``rank`` products.
            outer = dense.std / (inner.std * math.sqrt(rank))
            yield layer.up_proj.weight, xavier(rank, k) if published else Law(outer, dense.normal)


def _check(part: str, values: Tensor, law: Law) -> None:
    """``values``, in units of the expected standard deviation, against a unit distribution."""
    count = values.numel()
    # The standard error of a normal's standard deviation is 0.71 / sqrt(count), a uniform one's less.
    assert float(values.square().mean().sqrt()) == pytest.approx(1.0, abs=4 * 0.71 / math.sqrt(count)), part
    assert abs(float(values.mean())) < 4.5 / math.sqrt(count), part
    highest = float(values.abs().max())
    if not law.normal:
        assert highest <= math.sqrt(3) * (1 + 1e-6), part
    elif count > 200:
        assert highest > math.sqrt(3), part


@pytest.mark.parametrize("scheme", INIT_SCHEMES)
@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_has_the_distribution_of_its_scheme(name: str, scheme: str) -> None:
    torch.manual_seed(5)
    model = build_model(MODELS[name](scheme))
    seen: set[int] = set()
    groups: dict[tuple[str, bool], list[Tensor]] = defaultdict(list)
    laws: dict[tuple[str, bool], Law] = {}

    def collect(part: str, values: Tensor, law: Law) -> None:
        seen.add(id(values))
        if law.std == 0.0:
            assert not values.any(), part
            return
        groups[part, law.normal].append(values.detach().flatten() / law.std)
        laws[part, law.normal] = law

    for path, module in model.named_modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert not module.bias.any()
            seen |= {id(module.weight), id(module.bias)}
        elif isinstance(module, R2D2Linear | QuaternionLinear | LowRankLinear):
            where = f"{path}.weight"
            d, k = _widths(where, torch.empty(0), model)
            dense = EXPECTED[scheme][0][_part(where)](d, k)
            if scheme == "depth-scaled":
                dense = dense._replace(std=dense.std * _depth_factor(where, model))
            for number, (factor, law) in enumerate(_factor_laws(module, dense, d, k, scheme)):
                collect(f"{_part(where)}, factor {number}", factor, law)
            if module.bias is not None:
                collect(f"{_part(where)} bias", module.bias, EXPECTED[scheme][1].get(_part(where), zero)(d, k))
            if isinstance(module, R2D2Linear) and scheme != "r2d2":
                eye = torch.eye(module.n).expand_as(module.diffusion)
                torch.testing.assert_close(module.diffusion @ module.diffusion.transpose(1, 2), eye)
                seen.add(id(module.diffusion))
    for path, parameter in model.named_parameters():
        if id(parameter) in seen:
            continue
        if path == "encoder.bias":
            hidden_dim = parameter.shape[0] // 4  # of the LSTM
            collect(path, parameter, torch_default(hidden_dim, 1) if scheme == "torch" else Law(0.0))
        elif _part(path) == "ones":
            assert (parameter == 1).all()
            seen.add(id(parameter))
        else:
            collect(f"{_part(path)} {path.rpartition('.')[2]}", parameter, _law(path, parameter, model, scheme))
    assert seen == {id(parameter) for parameter in model.parameters()}
    for (part, normal), values in groups.items():
        _check(part, torch.cat(values), laws[part, normal])


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_has_a_role(name: str) -> None:
    """Or is of a LayerNorm, which no scheme draws."""
    model = build_model(small_config(**VARIANTS[name]))
    drawn = {
        id(parameter)
        for target, _ in marked_sites(model)
        for parameter in (target.parameters() if isinstance(target, nn.Module) else [target])
    }
    norms = {id(p) for module in model.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()}
    assert drawn.isdisjoint(norms)
    assert drawn | norms == {id(parameter) for parameter in model.parameters()}


@pytest.mark.parametrize("scheme", INIT_SCHEMES)
def test_the_seed_decides_the_weights(scheme: str) -> None:
    states = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        states.append(build_model(MODELS["subformer"](scheme)).state_dict())
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["src_embedding.weight"], states[2]["src_embedding.weight"])


def test_shared_blocks_are_drawn_once_for_the_layer_that_owns_them() -> None:
    """Three layers that share all blocks have the weights of depth 1."""
    model = build_model(small_config(**{**VARIANTS["all-shared"], **SIZES}, init="depth-scaled"))
    down = [value for name, value in model.named_parameters() if name.endswith("ffn.down_proj.weight")]
    assert len(down) == 2  # encoder and decoder
    for weight in down:
        # Uniform within 1 / sqrt(96).
        assert float(weight.detach().abs().max()) == pytest.approx(96**-0.5, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "n", "std"),
    [
        # std^2 = 2 / (d + n k).
        ("r2d2", 2, (2 / (512 + 2 * 512)) ** 0.5),
        ("r2d2", 16, (2 / (512 + 16 * 512)) ** 0.5),
        ("quaternion", 1, (2 / (128 + 512)) ** 0.5),
    ],
)
def test_built_weights_have_the_variance_of_the_published_code(kind: str, n: int, std: float) -> None:
    torch.manual_seed(0)
    variances = []
    for _ in range(40 if n == 2 else 1):
        layer: Any = build_linear(512, 512, LinearSpec(kind=kind, n=n), role=Role.FFN_UP)
        initialise(layer, "r2d2")
        variances.append(float(layer.build_weight().detach().var()))
    assert math.sqrt(sum(variances) / len(variances)) == pytest.approx(std, rel=0.06)


@pytest.mark.parametrize(
    "spec", [LinearSpec(kind="r2d2", n=4), LinearSpec(kind="quaternion"), LinearSpec(kind="low-rank", rank=60)]
)
def test_factors_give_the_variance_of_the_dense_weight(spec: LinearSpec) -> None:
    torch.manual_seed(0)
    layer = build_linear(240, 400, spec, role=Role.FFN_UP, bias=False)
    for scheme, std in (("xavier", (2 / 640) ** 0.5), ("normal", 0.02), ("subformer", (3 * 240) ** -0.5)):
        initialise(layer, scheme)
        response = layer(torch.randn(4000, 240)).detach()
        assert float(response.std()) == pytest.approx(math.sqrt(240) * std, rel=0.05)


def test_without_memory_nothing_is_drawn() -> None:
    before = torch.get_rng_state()
    with torch.device("meta"):
        model = build_model(MODELS["r2d2"]("normal"))
    assert all(parameter.is_meta for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), before)


def test_the_family_chooses_a_scheme() -> None:
    assert set(FAMILY_INIT.values()) <= set(INIT_SCHEMES)
    assert set(SCHEMES) == set(INIT_SCHEMES)
    config = small_config(family="transformer")
    assert (config.init, config.init_scheme) == ("family", FAMILY_INIT["transformer"])
    assert small_config(family="transformer", init="normal").init_scheme == "normal"


def test_the_row_of_a_paper_takes_that_papers_scheme() -> None:
    schemes = {
        "Lite Transformer": {"lite-transformer", "lite-transformer-iwslt"},
        "Subformer": {"subformer"},
        "Finetuning Pretrained Transformers into RNNs": {"t2r"},
        "R2D2": {"r2d2"},
    }
    found: dict[str, set[str]] = defaultdict(set)
    for preset in load_presets():
        if preset.reproduces is not None:
            paper = next(name for name in schemes if preset.reproduces.paper.startswith(name))
            found[paper].add(preset.model.init)
    assert found == schemes


def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"init: expected 'family', 'xavier', .* or 'depth-scaled', found 'glorot'"):
        small_config(family="transformer", init="glorot")
    with pytest.raises(ModelError, match=r"initialisation: expected one of xavier, lite-transformer, .*found 'glorot'"):
        initialise(nn.Linear(2, 2), "glorot")


def test_modules_without_a_role_keep_their_weights() -> None:
    layer = nn.Linear(3, 3)
    before = layer.weight.clone()
    initialise(layer, "normal")
    assert torch.equal(layer.weight, before)
