"""Coding of a model by ``nncodec``, for ``nncodec_rival.py``, which starts this file with an interpreter that has it.

    python benchmarks/nncodec_engine.py TENSORS.npz OUT PARAMETER [PARAMETER ...]

Nothing of this project is imported. For every quantization parameter the tensors are encoded and decoded again, and
``OUT/PARAMETER.npz`` has what the decoder returned; one JSON object with the bytes of the streams is printed last.
"""

import json
import sys
from pathlib import Path

import numpy as np
from nncodec.nn import decode, encode


def main() -> None:
    """Encode and decode once for each quantization parameter."""
    source, out, *parameters = sys.argv[1:]
    with np.load(source) as archive:
        tensors = {name: archive[name] for name in archive.files}
    sizes = {}
    for parameter in parameters:
        # Beside the step the defaults of the software: trellis-coded quantization, contexts chosen for each tensor,
        # steps by the relative size of the layers.
        settings = {"qp": int(parameter), "use_dq": True, "opt_qp": True, "verbose": False, "results": out}
        stream = encode(tensors, args=settings)
        np.savez(Path(out, f"{parameter}.npz"), **decode(stream))
        sizes[parameter] = len(stream)
    print(json.dumps(sizes))


if __name__ == "__main__":
    main()
