from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from lite_nlp.api.budget import count_model
from lite_nlp.budget.closed_form.formulas import count_config
from lite_nlp.budget.traced.counter import count_parameters, count_stepped_model, count_work
from lite_nlp.budget.traced.work import Entry, WorkCount
from lite_nlp.config.model import EncoderDecoderConfig, ModelConfig
from lite_nlp.config.preset import load_config, parse_model
from lite_nlp.configs import list_presets
from lite_nlp.core.errors import CountError, UnknownOperatorError
from lite_nlp.models.build import build_model
from lite_nlp.models.transformer import EncoderDecoder

FAMILIES = ("transformer", "lite-transformer", "lightconv")


def _meta_model(config: ModelConfig) -> EncoderDecoder:
    with torch.device("meta"):
        return build_model(config).eval()


def _tokens(*shape: int) -> Tensor:
    return torch.zeros(shape, dtype=torch.int64)


def _forward(model: nn.Module, *, src_len: int, tgt_len: int, batch: int = 1) -> WorkCount:
    src_mask = torch.ones(batch, src_len, dtype=torch.bool)
    return count_work(model, _tokens(batch, src_len), src_mask, _tokens(batch, tgt_len))


def _small(family: str, **changes: Any) -> ModelConfig:
    kernels = {} if family == "transformer" else {"kernel_sizes": (3, 5), "decoder_kernel_sizes": (3, 4)}
    sizes = {"src_vocab_size": 50, "tgt_vocab_size": 50, "embed_dim": 16, "ffn_dim": 24}
    layers = {"num_encoder_layers": 2, "num_decoder_layers": 2}
    return parse_model({"family": family, **sizes, **layers, **kernels, **changes})


TRANSLATORS = [preset for preset in list_presets() if load_config(preset).model.architecture == "encoder-decoder"]
#: Presets whose forward does what the papers count; a linear attention runs over all tokens in another order.
PRESETS = [preset for preset in TRANSLATORS if load_config(preset).model.family != "t2r"]


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_count_as_their_closed_forms(preset: str) -> None:
    config = load_config(preset).model
    model = _meta_model(config)
    src_len, tgt_len = 30, 23
    work, closed = (
        _forward(model, src_len=src_len, tgt_len=tgt_len),
        count_config(config, src_len=src_len, tgt_len=tgt_len),
    )
    # Two products of the forward are outside of the paper's count: the output projection, which the outermost module
    # calls, and the convolutions' taps, laid out as (T, T) band matrices for each channel.
    output = work.by_module()[""].macs
    band = sum(entry.macs for entry in work.entries if entry.module.endswith(".convolution"))
    assert output == config.tgt_vocab_size * config.table_dim * tgt_len
    layers = len(config.kernel_sizes) * src_len**2 + len(config.decoder_kernel_sizes) * tgt_len**2
    assert band == config.conv_dim * layers
    assert work.total - output - band == closed.macs_paper
    assert work.layer_norm == sum(cost.paper for cost in closed.costs if cost.operation == "layer_norm")
    assert count_parameters(model).total == closed.params_total


@pytest.mark.parametrize("preset", [preset for preset in TRANSLATORS if preset not in PRESETS])
def test_linear_attention_counts_step_by_step_as_its_closed_form(preset: str) -> None:
    config = load_config(preset).model
    model = _meta_model(config)
    closed = count_config(config, src_len=30, tgt_len=23)
    # Nothing is hidden by a mask here: the state has a fixed size.
    assert count_stepped_model(model, src_len=30, tgt_len=23).total == closed.macs_executed
    assert count_parameters(model).total == closed.params_total


def test_a_big_transformer_counts_without_its_memory() -> None:
    """209,911,808 parameters and 5.32G Mult-Adds, 6.33G with the output, are published for this model."""
    config = EncoderDecoderConfig(
        family="transformer", src_vocab_size=32_768, tgt_vocab_size=32_768, embed_dim=1024, ffn_dim=4096, num_heads=16
    )
    model = _meta_model(config)
    work = _forward(model, src_len=30, tgt_len=30)
    assert all(parameter.is_meta for parameter in model.parameters())
    assert count_parameters(model).total == 209_911_808
    # Layers: 6 x (12 + 16) d^2 per token and 3 x 6 x 2 x 30^2 d in attention; 5 x 6 norms.
    layers = 30 * 6 * 28 * 1024**2 + 36 * 30**2 * 1024
    assert work.layer_norm == 30 * 30 * 1024
    assert work.macs == layers + 30 * 1024 * 32_768
    assert f"{(layers + work.layer_norm) / 1e9:.2f}, {work.total / 1e9:.2f}" == "5.32, 6.33"


@pytest.mark.parametrize("family", FAMILIES)
def test_stepped_model_counts_what_a_decode_does(family: str) -> None:
    config = _small(family)
    model = build_model(config).eval()
    src_len, tgt_len = 7, 5

    def decode(src_tokens: Tensor, src_mask: Tensor, tgt_tokens: Tensor) -> None:
        state = model.init_state(model.encode(src_tokens, src_mask), src_mask, tgt_len)
        for tokens in tgt_tokens.T:
            _, state = model.decode_step(tokens, state)

    src_mask = torch.ones(1, src_len, dtype=torch.bool)
    whole = count_work(decode, _tokens(1, src_len), src_mask, _tokens(1, tgt_len))
    stepped = count_stepped_model(model, src_len=src_len, tgt_len=tgt_len)
    assert stepped.by_kind() == whole.by_kind()
    # By hand: the closed form, the cache's empty room, and the encoder's bands instead of its taps.
    empty = 2 * 2 * config.attention_dim * (tgt_len**2 - tgt_len * (tgt_len + 1) // 2)
    bands = sum(config.conv_dim * src_len * (src_len - size) for size in config.kernel_sizes)
    assert stepped.total == count_config(config, src_len=src_len, tgt_len=tgt_len).macs_executed + empty + bands


def test_each_hypothesis_of_a_beam_takes_a_step_of_its_own() -> None:
    model = build_model(_small("lite-transformer")).eval()
    greedy, beam = (count_stepped_model(model, src_len=7, tgt_len=5, beam=size).total for size in (1, 4))
    src_mask = torch.ones(1, 7, dtype=torch.bool)
    encode = count_work(model.encode, _tokens(1, 7), src_mask).total
    project = count_work(model.init_state, torch.empty(1, 7, 16), src_mask, 5).total
    assert beam - (encode + project) == 4 * (greedy - (encode + project))
    with pytest.raises(ValueError, match="beam: expected at least 1, found 0"):
        count_stepped_model(model, src_len=7, tgt_len=5, beam=0)


def test_linears_count_half_of_the_flops_that_torch_counts() -> None:
    stack = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
    x = torch.randn(11, 4, 3)
    with FlopCounterMode(display=False) as flops:
        stack(x)
    assert 2 * count_work(stack, x).macs == flops.get_total_flops()


@pytest.mark.parametrize("family", FAMILIES)
def test_work_is_exactly_proportional_to_the_batch(family: str) -> None:
    model = build_model(_small(family)).eval()
    once = _forward(model, src_len=7, tgt_len=5)
    assert _forward(model, src_len=7, tgt_len=5, batch=6).by_kind() == once.scaled(6).by_kind()


def test_padding_changes_nothing() -> None:
    model = build_model(_small("lite-transformer")).eval()
    full = torch.ones(2, 7, dtype=torch.bool)
    padded = full.clone()
    padded[0, 3:] = False
    counts = [count_work(model, _tokens(2, 7), mask, _tokens(2, 5)) for mask in (full, padded)]
    assert counts[0] == counts[1]

    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 12, batch_first=True), 2).eval()
    x = torch.empty(2, 7, 8)
    assert count_work(encoder, x, src_key_padding_mask=~padded).macs == count_work(encoder, x).macs


@pytest.mark.parametrize("chunk", [1, 3, 5, 15])
def test_splitting_a_sequence_never_makes_attention_cheaper_than_its_closed_form(chunk: int) -> None:
    tokens, channels = 15, 4

    def split(x: Tensor) -> list[Tensor]:
        """Each chunk of queries over all keys so far."""
        ends = range(chunk, tokens + 1, chunk)
        return [F.scaled_dot_product_attention(x[:, end - chunk : end], x[:, :end], x[:, :end]) for end in ends]

    macs = count_work(split, torch.empty(1, tokens, channels)).macs
    assert macs >= 2 * channels * tokens * (tokens + 1) // 2
    # Between the triangle, when every token is a chunk, and the full rectangle, when there is one.
    assert macs == 2 * channels * tokens * (tokens + chunk) // 2


def test_the_whole_is_the_sum_of_its_parts() -> None:
    config = _small("lite-transformer")
    model = build_model(config).eval()
    work = _forward(model, src_len=7, tgt_len=5)
    for parts in (work.by_module(), work.by_module(1), work.by_module(2), work.by_operator()):
        assert sum(part.total for part in parts.values()) == work.total
    assert sum(work.by_kind().values()) == work.total == work.macs + work.layer_norm
    # The parts, run by themselves.
    src_mask = torch.ones(1, 7, dtype=torch.bool)
    assert count_work(model.encode, _tokens(1, 7), src_mask).total == work.by_module(1)["encoder"].total
    block = count_work(model.encoder[0].ffn, torch.empty(1, 7, 16))
    assert work.by_module(3)["encoder.0.ffn"].total == block.total == 2 * 7 * 16 * 24


def test_modules_are_named_also_in_methods_other_than_forward() -> None:
    model = build_model(_small("transformer")).eval()
    state_mask = torch.ones(1, 7, dtype=torch.bool)
    work = count_work(model.init_state, torch.empty(1, 7, 16), state_mask, 5)
    # Keys and values: 2 x 7 x 16 x 16 in each of both layers.
    assert {name: part.macs for name, part in work.by_module().items()} == {
        "decoder.0.cross.memory_proj": 3_584,
        "decoder.1.cross.memory_proj": 3_584,
    }
    assert set(work.by_module(2)) == {"decoder.0", "decoder.1"}
    # In a function that is no module's, the path starts with the class of the outermost module.
    outside = count_work(lambda x: model.encoder[1].ffn(x), torch.empty(1, 7, 16))
    assert set(outside.by_module()) == {"FeedForward.up_proj", "FeedForward.down_proj"}
    assert set(count_work(torch.mm, torch.empty(2, 3), torch.empty(3, 5)).by_module()) == {""}


def test_two_modules_of_one_class_keep_apart() -> None:
    first, second = nn.Linear(3, 5), nn.Linear(5, 7)
    work = count_work(lambda x: second(first(x)), torch.empty(2, 3))
    assert {name: part.macs for name, part in work.by_module().items()} == {"Linear": 30, "Linear_2": 70}


def test_a_shared_module_has_its_parameters_once_and_its_work_every_time() -> None:
    linear = nn.Linear(3, 3)
    stack = nn.Sequential(linear, nn.Sequential(linear), linear)
    assert count_parameters(stack).total == 12
    assert count_work(stack, torch.empty(2, 3)).entries == (
        Entry(operator="aten.addmm", module="0", kind="matmul", macs=3 * 2 * 3 * 3, calls=3),
    )


@pytest.mark.parametrize("tie", ["none", "decoder", "all"])
def test_parameters_are_those_of_the_unique_tensors(tie: str) -> None:
    model = build_model(_small("lite-transformer", tie_embeddings=tie))
    counted = count_parameters(model)
    unique = {id(parameter): parameter.numel() for parameter in model.parameters()}
    assert counted.total == sum(unique.values()) == sum(counted.by_module.values())


def test_arguments_in_any_nesting_of_any_sort() -> None:
    def weigh(inputs: dict[str, list[Tensor]], *, scale: Tensor, times: int) -> Tensor:
        left, right = inputs["pair"]
        return sum((left @ right * scale for _ in range(times)), torch.zeros(()))

    expected = 3 * 2 * 5 * 7
    with FakeTensorMode():
        fake = [torch.empty(2, 5), torch.empty(5, 7)]
    for pair in ([torch.empty(2, 5), torch.empty(5, 7)], [torch.empty(2, 5, device="meta"), torch.empty(5, 7)], fake):
        assert count_work(weigh, {"pair": pair}, scale=torch.ones(()), times=3).macs == expected


def test_weights_on_meta_meet_tensors_made_on_the_way() -> None:
    class Positional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.proj = nn.Linear(4, 4, device="meta")
            self.register_buffer("width", torch.tensor(2))

        def forward(self, x: Tensor) -> Tensor:
            ramp = torch.arange(4, device=self.proj.weight.device) + torch.tensor([1.0, 2.0, 3.0, 4.0])
            # A buffer is a constant of the model, so that its number may be asked for.
            return self.proj(x + ramp)[:, : self.width.item()] @ torch.eye(self.width.item())

    assert count_work(Positional(), torch.empty(3, 4)).macs == 3 * 4 * 4 + 3 * 2 * 2


@pytest.mark.parametrize("training", [True, False])
def test_training_mode_and_gradients_do_not_matter(training: bool) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 12, batch_first=True).train(training)
    x = torch.empty(2, 5, 8, requires_grad=True)
    expected = count_work(layer.eval(), torch.empty(2, 5, 8)).by_kind()
    assert count_work(layer.train(training), x).by_kind() == expected
    with torch.inference_mode():
        assert count_work(layer, torch.empty(2, 5, 8)).by_kind() == expected


def test_an_exported_graph_counts_like_its_module() -> None:
    model = build_model(_small("lite-transformer")).eval()
    inputs = (_tokens(1, 7), torch.ones(1, 7, dtype=torch.bool), _tokens(1, 5))
    exported = torch.export.export(model, inputs)
    live = count_work(model, *inputs)
    assert count_work(exported.module(), *inputs).by_kind() == live.by_kind()
    interpreter = torch.fx.Interpreter(exported.module())
    assert count_work(lambda *args: interpreter.run(*args), *inputs).by_kind() == live.by_kind()


def test_counts_add_up_and_multiply() -> None:
    entry = Entry(operator="aten.mm", module="a.b", kind="matmul", macs=6, calls=2)
    norm = Entry(operator="aten.native_layer_norm", module="a", kind="layer_norm", macs=5, calls=1)
    count = WorkCount((entry, norm))
    assert (count.macs, count.layer_norm, count.total) == (6, 5, 11)
    assert (count + count) == count.scaled(2)
    assert count.scaled(3).entries[0] == Entry(operator="aten.mm", module="a.b", kind="matmul", macs=18, calls=6)
    assert count.scaled(0) == WorkCount()
    assert count.by_kind() == {"matmul": 6, "convolution": 0, "contraction": 0, "layer_norm": 5, "batch_norm": 0}
    assert count.by_module(1) == {"a": count}
    with pytest.raises(ValueError, match="depth of module names: expected at least 1, found 0"):
        count.by_module(0)
    with pytest.raises(ValueError, match="expected at least 0, found -1"):
        count.scaled(-1)


class _Stream(nn.Module):
    """Keeps what it has seen, in a buffer, an attribute, a list and a dictionary."""

    past: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(2, 2, 3)
        self.register_buffer("past", torch.zeros(1, 2, 2))
        self.seen: list[Tensor] = []
        self.latest: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([self.past, x], dim=-1)
        self.past = x[..., -2:]
        self.new = x
        self.seen.append(x)
        self.latest["x"] = x
        out: Tensor = self.convolution(x)
        return out


def test_a_module_keeps_nothing_of_being_counted() -> None:
    model, other, x = _Stream().eval(), _Stream().eval(), torch.ones(1, 2, 5)
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = [other(x).tolist() for _ in range(2)]
        for place in range(2):
            assert count_work(model, x).total == 5 * 2 * 2 * 3
            assert len(model.seen) == place
            assert hasattr(model, "new") is bool(place)
            assert model(x).tolist() == expected[place]
    assert list(model.latest) == ["x"]
    normed = torch.nn.utils.spectral_norm(nn.Linear(4, 4))
    count_work(normed, torch.ones(1, 4))
    assert type(normed.weight) is not FakeTensor
    assert torch.isfinite(normed(torch.ones(1, 4))).all()


def test_a_table_counts_whatever_it_is_made_of() -> None:
    model = nn.Sequential(torch.nn.utils.parametrizations.weight_norm(nn.Embedding(100, 8)), nn.Linear(8, 2))
    counted = count_parameters(model)
    assert (counted.total, sum(counted.tables.values())) == (100 * 8 + 100 + 8 * 2 + 2, 100 * 8 + 100)


def test_lazy_modules_have_to_be_called_first() -> None:
    model = nn.Sequential(nn.Linear(8, 3), nn.LazyLinear(4))
    for count in (count_parameters, lambda lazy: count_work(lazy, torch.zeros(3, 8))):
        with pytest.raises(
            CountError, match=r"1\.weight: expected a parameter with a shape, found that of a lazy module"
        ):
            count(model)
    model(torch.zeros(3, 8))
    assert count_work(model, torch.zeros(3, 8)).total == 3 * 8 * 3 + 3 * 3 * 4


def test_an_operator_is_never_ours() -> None:
    with pytest.raises(UnknownOperatorError, match=r"^operator aten\.upsample_bilinear2d at .*test_counter\.py:\d+: "):
        count_model(nn.Upsample(scale_factor=2, mode="bilinear"), torch.zeros(1, 1, 4, 4))
