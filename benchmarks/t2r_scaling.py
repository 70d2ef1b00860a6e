"""Time and state per generated token of a language model, by kind of attention and length of the text.

    python benchmarks/t2r_scaling.py --lengths 128,512,2048,8192 [--embed-dim 512] [--layers 4] [--batch 1] [--json]

The model is shaped like the one of T2R (Kasai et al. 2021, section 3.2.1): heads of 128 channels, 32 features, a
feed-forward four times as wide; only narrower, with fewer layers and a small vocabulary. Weights are random, which
does not affect the time. A step is a whole greedy step: embedding, all layers, logits, the best token.

``softmax`` is this project's step, whose cache has room for the whole text from the start and is copied, as exported
graphs require. ``softmax-in-place`` is the fastest possible attention with a cache in the same framework: keys and
values are written into the cache, and only the tokens so far are attended to. ``elu``, ``random-features`` and ``t2r``
have a state of constant size.
"""

import argparse
import gc
import json
import time
from functools import partial
from typing import Any, Final

import torch
from provenance import processor
from torch import Tensor

from lite_nlp.budget.closed_form.state import count_state
from lite_nlp.config.kinds import ATTENTION_KINDS
from lite_nlp.config.model import LanguageModelConfig
from lite_nlp.models.attention.heads import merge_heads, split_heads
from lite_nlp.models.attention.softmax import SelfAttention
from lite_nlp.models.build import build_model
from lite_nlp.models.language_model import LanguageModel

#: Kind of attention in the config, by its name in the rows.
KINDS: Final = {
    "softmax": "softmax",
    "softmax-in-place": "softmax",
    "elu": "elu",
    "random-features": "random-features",
    "t2r": "t2r",
}

#: Channels of a head and features of a map in the paper's language model.
HEAD_DIM, FEATURES = 128, 32
VOCABULARY = 8000

#: Length at which the paper reports a speed-up, and the speed-up.
PAPER_LENGTH, PAPER_SPEEDUP = 512, "about 4x"

WARM_UP_STEPS = 5


def build(kind: str, *, embed_dim: int, layers: int, max_positions: int) -> LanguageModel:
    """A language model of random weights with attention of ``kind``, in evaluation mode."""
    attention = KINDS[kind]
    facts = ATTENTION_KINDS[attention]
    config = LanguageModelConfig(
        family="t2r" if facts.is_linear else "transformer",
        tgt_vocab_size=VOCABULARY,
        embed_dim=embed_dim,
        ffn_dim=4 * embed_dim,
        num_decoder_layers=layers,
        num_heads=embed_dim // HEAD_DIM,
        self_attention=attention,
        self_feature_size=FEATURES if facts.has_feature_size else 0,
        max_positions=max_positions,
    )
    torch.manual_seed(1)
    model = build_model(config).eval()
    if kind == "softmax-in-place":
        for module in model.modules():
            if isinstance(module, SelfAttention):
                module.step = partial(step_in_place, module)
    return model


def step_in_place(
    attention: SelfAttention, x: Tensor, state: dict[str, Tensor], position: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """``SelfAttention.step`` that writes into the caches it is given; all rows are at the same position."""
    query, key, value = (split_heads(part, attention.num_heads) for part in attention.in_proj(x).chunk(3, dim=-1))
    here = int(position[0])
    state["self_key"][:, :, here] = key[:, :, 0]
    state["self_value"][:, :, here] = value[:, :, 0]
    keys, values = state["self_key"][:, :, : here + 1], state["self_value"][:, :, : here + 1]
    weights = torch.matmul(query * attention.head_dim**-0.5, keys.transpose(-2, -1)).softmax(dim=-1)
    return attention.out_proj(merge_heads(torch.matmul(weights, values))), state


def state_bytes(state: dict[str, Tensor]) -> int:
    """Bytes of state that are carried from step to step, without the position."""
    return sum(tensor.nbytes for name, tensor in state.items() if name != "position")


@torch.inference_mode()
def time_steps(model: LanguageModel, *, batch: int, length: int, samples: int) -> tuple[list[float], int]:
    """Milliseconds of steps at positions spread evenly over a text of ``length`` tokens, and bytes of the state."""
    state = model.init_state(batch, length)
    size = state_bytes(state)
    closed_form = 4 * batch * sum(count_state(model.config, src_len=0, tgt_len=length).values())
    if size != closed_form:
        raise SystemExit(f"state of {length} tokens: expected {closed_form} bytes, found {size}")
    count = min(samples, length)
    places = [index * length // count for index in range(count)]
    tokens = torch.ones(batch, dtype=torch.int64)
    times = []
    for place in [*places[:1] * WARM_UP_STEPS, *places]:
        # The content of the state does not affect the time, so the positions in between need not be generated.
        state["position"] = torch.full_like(state["position"], place)
        started = time.perf_counter()
        logits, state = model.decode_step(tokens, state)
        tokens = logits.argmax(dim=-1)
        times.append(1000 * (time.perf_counter() - started))
    return times[WARM_UP_STEPS:], size


def measure(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure a row per kind and length in turns; each position counts with its fastest turn.

    So other programs, or a processor whose speed varies, affect all rows alike.
    """
    longest = max(options.lengths)
    models = {
        kind: build(kind, embed_dim=options.embed_dim, layers=options.layers, max_positions=longest) for kind in KINDS
    }
    cases = [(kind, length) for length in options.lengths for kind in KINDS]
    turns: dict[tuple[str, int], list[list[float]]] = {case: [] for case in cases}
    sizes = {}
    for _ in range(options.turns):
        for kind, length in cases:
            gc.collect()
            times, sizes[kind, length] = time_steps(
                models[kind], batch=options.batch, length=length, samples=options.samples
            )
            turns[kind, length].append(times)
    rows = []
    for kind, length in cases:
        best = [min(times) for times in zip(*turns[kind, length], strict=True)]
        mean = sum(best) / len(best)
        size = sizes[kind, length]
        rows.append({"attention": kind, "length": length, "ms_per_token": round(mean, 4), "state_bytes": size})
    return rows


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """The model and the machine of the measurement."""
    params = {
        kind: sum(
            parameter.numel()
            for parameter in build(
                kind, embed_dim=options.embed_dim, layers=options.layers, max_positions=2
            ).parameters()
        )
        for kind in ("softmax", "t2r")
    }
    return {
        "model": {
            "num_layers": options.layers,
            "embed_dim": options.embed_dim,
            "ffn_dim": 4 * options.embed_dim,
            "num_heads": options.embed_dim // HEAD_DIM,
            "head_dim": HEAD_DIM,
            "feature_size": FEATURES,
            "vocab_size": VOCABULARY,
            "params": params,
        },
        "batch": options.batch,
        "threads": options.threads,
        "torch": torch.__version__,
        "processor": processor(),
    }


def speedups(rows: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Speed-up of each kind over both softmax variants, by length and kind."""
    times = {(row["attention"], row["length"]): row["ms_per_token"] for row in rows}
    lengths = sorted({length for _, length in times})
    return {
        str(length): {
            f"{kind} over {base}": round(times[base, length] / times[kind, length], 2)
            for base in ("softmax", "softmax-in-place")
            for kind in ("elu", "random-features", "t2r")
        }
        for length in lengths
    }


def table(result: dict[str, Any]) -> str:
    """A Markdown table: a row per kind, milliseconds and state per length, and the speed-up at the paper's length."""
    rows = {(row["attention"], row["length"]): row for row in result["rows"]}
    lengths = sorted({length for _, length in rows})
    heads = [f"{length:,}: ms, state" for length in lengths]
    lines = [f"| attention | {' | '.join(heads)} |", "|---" * (len(lengths) + 1) + "|"]
    for kind in KINDS:
        cells = [
            f"{rows[kind, length]['ms_per_token']:.2f}, {rows[kind, length]['state_bytes']:,} B" for length in lengths
        ]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    if str(PAPER_LENGTH) in result["speedups"]:
        found = result["speedups"][str(PAPER_LENGTH)]
        lines.append(
            f"\nT2R at {PAPER_LENGTH} tokens: {found['t2r over softmax']:.2f} times as fast as softmax,"
            f" {found['t2r over softmax-in-place']:.2f} times as fast as softmax-in-place; the paper: {PAPER_SPEEDUP}."
        )
    return "\n".join(lines)


def lengths_of(text: str) -> list[int]:
    """Lengths separated by commas."""
    values = [int(part) for part in text.split(",")]
    if min(values) < 1:
        raise ValueError(text)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and state of a generated token by kind of attention.")
    parser.add_argument("--lengths", type=lengths_of, default=[128, 512, 2048, 8192], metavar="N,N,...")
    parser.add_argument("--embed-dim", type=int, default=512, help=f"a multiple of {HEAD_DIM}")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--samples", type=int, default=64, help="steps timed per text, spread evenly over it")
    parser.add_argument("--turns", type=int, default=8, help="times that each text is measured")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    options = parser.parse_args()
    for name in ("embed_dim", "layers", "batch", "threads", "samples", "turns"):
        if getattr(options, name) < 1:
            parser.error(f"--{name.replace('_', '-')}: expected at least 1, found {getattr(options, name)}")
    if options.embed_dim % HEAD_DIM:
        parser.error(f"--embed-dim: expected a multiple of {HEAD_DIM}, found {options.embed_dim}")
    torch.set_num_threads(options.threads)
    rows = measure(options)
    result = {"schema_version": 1, **describe(options), "rows": rows, "speedups": speedups(rows)}
    print(json.dumps(result, indent=1) if options.json else table(result))


if __name__ == "__main__":
    main()
