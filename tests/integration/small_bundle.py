"""Bundles without graphs whose manifests record their work: made in no time."""

from pathlib import Path

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial
from lite_nlp.config.model import EncoderDecoderConfig
from lite_nlp.config.preset import Config, dump_config
from lite_nlp.data.tokenizer import Tokenizer
from lite_nlp.export.bundle_writer import describe_files, write_bundle
from lite_nlp.export.counting.torch_programs import count_model_work
from lite_nlp.export.runtime.layout import Bounds
from lite_nlp.export.runtime.manifest import CONFIG_FILE, TOKENIZER_FILE, Manifest, Vocabulary
from lite_nlp.export.tracing import describe_state
from lite_nlp.models.build import build_model

TOKENIZER = Tokenizer.train(["a few words", "and a few more"], vocab_size=270)
BOUNDS = Bounds(source=24, capacity=20, executorch_batch=4)
MODEL = EncoderDecoderConfig(
    family="lite-transformer",
    src_vocab_size=TOKENIZER.vocab_size,
    tgt_vocab_size=TOKENIZER.vocab_size,
    embed_dim=16,
    ffn_dim=24,
    num_encoder_layers=1,
    num_decoder_layers=1,
    num_heads=2,
    conv_num_heads=2,
    kernel_sizes=(5,),
    decoder_kernel_sizes=(3,),
    max_positions=32,
)


def record_work() -> dict[str, GraphWork]:
    """The model's work, as an exporter finds it, in the place of both runtimes' graphs."""
    model = build_model(MODEL).eval()
    return dict.fromkeys(("torch", "onnx", "executorch"), count_model_work(model, describe_state(model), BOUNDS))


def alter_work(recorded: dict[str, GraphWork]) -> dict[str, GraphWork]:
    """The same with 3 C more in a step of ExecuTorch's program."""
    work = recorded["executorch"]
    more = {**work.decode_step, "matmul": work.decode_step["matmul"] + Polynomial(((3, 0, 1),))}
    return {**recorded, "executorch": GraphWork(encode=work.encode, decode_step=more)}


def write_small_bundle(path: Path, recorded: dict[str, GraphWork]) -> Path:
    """Write a bundle that records ``recorded``."""
    content = {
        CONFIG_FILE: dump_config(Config(name="tiny", model=MODEL)).encode(),
        TOKENIZER_FILE: TOKENIZER.to_json(),
    }
    manifest = Manifest(
        name="tiny",
        versions={},
        precision="fp32",
        vocabulary=Vocabulary(src_size=MODEL.src_vocab_size, tgt_size=MODEL.tgt_vocab_size),
        bounds=BOUNDS,
        state=describe_state(build_model(MODEL).eval()),
        graphs={name: work.to_json() for name, work in recorded.items()},
        files=describe_files(content),
    )
    write_bundle(path, manifest=manifest, files=content)
    return path
