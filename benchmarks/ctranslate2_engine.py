"""Translation by CTranslate2, for ``translate.py``, which starts this file with an interpreter that has that package.

    python benchmarks/ctranslate2_engine.py SOCKET

Nothing of this project is imported. Over the socket come a ``Task`` as a dictionary and then, as for the other
engines, requests for turns until a 0; the wall time and the processor time of each turn go back. The weights are
random: the work of forced lengths does not depend on them.
"""

import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Client
from typing import Any, TypedDict

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerSpec


class Task(TypedDict):
    """What the engine is told.

    Attributes:
        threads: Threads of an operator.
        beam: Hypotheses of a sentence.
        compute_type: ``int8`` or ``float32``.
        embed_dim: Width; ``num_heads`` heads, ``ffn_dim`` inner channels.
        num_heads: Of all attentions.
        ffn_dim: Of all layers.
        num_layers: Of the encoder and of the decoder.
        vocab_size: Types of both languages, in one table.
        max_positions: Rows of the table of positions.
        batches: Source ids of each sentence of each batch, end mark included.
        steps: Decoder steps of each batch.
    """

    threads: int
    beam: int
    compute_type: str
    embed_dim: int
    num_heads: int
    ffn_dim: int
    num_layers: tuple[int, int]
    vocab_size: int
    max_positions: int
    batches: list[list[list[int]]]
    steps: list[int]


def vocabulary(size: int) -> list[str]:
    """Types by id, with the special ones that CTranslate2 looks for."""
    return ["<unk>", "<s>", "</s>", *(f"t{number}" for number in range(3, size))]


def build(task: Task, directory: str) -> None:
    """Save a Transformer of random weights: pre-norm, ReLU, one table for both embeddings and the output."""
    random = np.random.default_rng(1)
    width, inner = task["embed_dim"], task["ffn_dim"]
    spec = TransformerSpec.from_config(tuple(task["num_layers"]), task["num_heads"], pre_norm=True)

    def linear(to: Any, outputs: int, inputs: int) -> None:
        to.weight = random.normal(0, inputs**-0.5, (outputs, inputs)).astype(np.float32)
        to.bias = np.zeros(outputs, np.float32)

    def norm(to: Any) -> None:
        to.gamma, to.beta = np.ones(width, np.float32), np.zeros(width, np.float32)

    table = random.normal(0, width**-0.5, (task["vocab_size"], width)).astype(np.float32)
    positions = random.normal(0, 0.1, (task["max_positions"], width)).astype(np.float32)
    for stack in (spec.encoder, spec.decoder):
        for embeddings in stack.embeddings if isinstance(stack.embeddings, list) else [stack.embeddings]:
            embeddings.weight = table
        stack.position_encodings.encodings = positions
        norm(stack.layer_norm)
        for layer in stack.layer:
            norm(layer.self_attention.layer_norm)
            linear(layer.self_attention.linear[0], 3 * width, width)
            linear(layer.self_attention.linear[1], width, width)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, inner, width)
            linear(layer.ffn.linear_1, width, inner)
            if stack is spec.decoder:
                norm(layer.attention.layer_norm)
                for linear_spec, outputs in zip(layer.attention.linear, (width, 2 * width, width), strict=True):
                    linear(linear_spec, outputs, width)
    spec.decoder.projection.weight = table
    types = vocabulary(task["vocab_size"])
    spec.register_source_vocabulary(types)
    spec.register_target_vocabulary(types)
    spec.validate()
    spec.optimize(quantization="int8" if task["compute_type"] == "int8" else None)
    spec.save(directory)


def main() -> None:
    """Serve the benchmark until it sends 0."""
    connection = Client(sys.argv[1])
    task: Task = connection.recv()
    with tempfile.TemporaryDirectory() as directory:
        build(task, directory)
        translator = ctranslate2.Translator(
            directory,
            compute_type=task["compute_type"],
            inter_threads=1,
            intra_threads=task["threads"],
        )
        types = vocabulary(task["vocab_size"])
        batches = [[[types[token] for token in row] for row in batch] for batch in task["batches"]]

        def turn() -> list[list[int]]:
            """Translate all batches; the tokens produced for each sentence."""
            produced = []
            for batch, steps in zip(batches, task["steps"], strict=True):
                found = translator.translate_batch(
                    batch, beam_size=task["beam"], min_decoding_length=steps, max_decoding_length=steps
                )
                produced.append([len(result.hypotheses[0]) for result in found])
            return produced

        connection.send(("ready", turn(), ctranslate2.__version__))
        # The benchmark may also just end.
        with suppress(EOFError, BrokenPipeError):
            while connection.recv():
                wall, cpu = time.perf_counter(), time.process_time()
                turn()
                connection.send((time.perf_counter() - wall, time.process_time() - cpu))


if __name__ == "__main__":
    main()
