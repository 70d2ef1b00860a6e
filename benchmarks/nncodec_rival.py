"""Bytes and quality of ``lite-nlp compress`` beside ``nncodec``, the software of ISO/IEC 15938-17, on one checkpoint.

    python benchmarks/nncodec_rival.py [MODEL] --data DATA --nncodec PYTHON [--qp=-32,-28,-24,-20,-16] [--share 0.9]
        [--finetune-steps N] [--json]

PYTHON is an interpreter that has ``nncodec``. At each of its quantization parameters the model is stored by it; then
by ours with at most ``--share`` of its bytes. Neither trains, unless ``--finetune-steps`` are given to ours, as the
standard has no training. Both sizes have what a file needs beside its tensors, vocabulary, config and figures; the
divergence (nats per prediction) and the score are measured on the same pairs of DATA, on the weights read back.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor

from lite_nlp.api.compress import compress_model
from lite_nlp.api.compression_subject import embedded_files
from lite_nlp.artifacts.models import LoadedModel, load_model
from lite_nlp.compress.lnlp.container import container_bytes
from lite_nlp.compress.significance import Scored
from lite_nlp.compress.stages import model_tensors
from lite_nlp.core.progress import SilentProgress
from lite_nlp.tasks.calibration import Guidance, divergence_from
from lite_nlp.tasks.registry import task_of_architecture

ENGINE = Path(__file__).with_name("nncodec_engine.py")


def rival_streams(
    tensors: dict[str, Tensor], parameters: list[int], interpreter: str, directory: Path
) -> dict[int, int]:
    """Bytes by quantization parameter; the decoded tensors lie in the directory."""
    source = directory / "tensors.npz"
    np.savez(source, **{name: tensor.numpy() for name, tensor in tensors.items()})
    done = subprocess.run(
        [interpreter, str(ENGINE), str(source), str(directory), *map(str, parameters)], capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{interpreter}: nncodec did not run: {done.stderr.strip().splitlines()[-1:]}")
    return {int(name): size for name, size in json.loads(done.stdout.splitlines()[-1]).items()}


def quality(loaded: LoadedModel, guidance: Guidance, state: dict[str, Tensor]) -> dict[str, float]:
    """Divergence from the model's own predictions, and the score, with other weights."""
    own = {name: tensor.clone() for name, tensor in loaded.model.state_dict().items()}
    divergence = divergence_from(guidance.predict, loaded.model, guidance.scan)
    loaded.model.load_state_dict(state, strict=False)
    found = guidance.score(loaded.model, SilentProgress())
    scores = found.scores if isinstance(found, Scored) else found
    measured = {"divergence": divergence(loaded.model), guidance.metric.name: scores[guidance.metric.name]}
    loaded.model.load_state_dict(own)
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model", nargs="?")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--nncodec", default=sys.executable)
    parser.add_argument("--qp", default="-32,-28,-24,-20,-16")
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--finetune-steps", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    loaded = load_model(args.model)
    guidance = task_of_architecture(loaded.config.model.architecture).room().guide(loaded, args.data)
    tensors = model_tensors(loaded.model)
    beside = len(
        container_bytes(
            tensors={},
            aliases={},
            files=embedded_files(loaded, loaded.model),
            metadata={"kind": "model", "name": loaded.name},
        )
    )
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        floats = {name: tensor for name, tensor in tensors.tensors.items() if tensor.is_floating_point()}
        streams = rival_streams(floats, [int(qp) for qp in args.qp.split(",")], args.nncodec, directory)
        for qp, size in streams.items():
            with np.load(directory / f"{qp}.npz") as archive:
                state = {name: torch.from_numpy(archive[name]).reshape(floats[name].shape) for name in archive.files}
            # Tied tables are one tensor in the file and several names in the module.
            state |= {alias: state[of] for alias, of in tensors.aliases.items() if of in state}
            rows.append({"coder": f"nncodec, qp {qp}", "bytes": size + beside, **quality(loaded, guidance, state)})
            target = round(args.share * (size + beside))
            compressed = compress_model(
                loaded,
                out=directory / f"ours{qp}",
                data=args.data,
                target_bytes=target,
                finetune=args.finetune_steps is not None,
                finetune_steps=args.finetune_steps,
                threads=args.threads,
            )
            state = load_model(compressed.path).model.state_dict()
            made = compressed.stages[-1].size_bytes
            rows.append({"coder": "lite-nlp", "bytes": made, **quality(loaded, guidance, state)})
            print(f"{qp}: {rows[-2]}\n{' ' * len(str(qp))}  {rows[-1]}", file=sys.stderr)
    if args.json:
        print(json.dumps({"model": loaded.name, "text": guidance.name, "rows": rows}))
        return
    table = Table("coder", "bytes", "divergence", guidance.metric.label)
    for row in rows:
        score = row[guidance.metric.name]
        table.add_row(row["coder"], f"{row['bytes']:,}", f"{row['divergence']:.4f}", f"{score:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
