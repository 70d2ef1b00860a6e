"""Operators and backends that an ExecuTorch program needs, method by method.

    PYTHONPATH=android_demo .venv/bin/python -m tools.checks.operators model.pte > operators.json

Reads the file by the schema that comes with the executorch package, which made it.
"""

import json
import struct
import sys
from pathlib import Path
from typing import Any

from tools.base.errors import BuildError

__all__ = ["list_operators"]


def list_operators(program: bytes) -> dict[str, Any]:
    """List operators and backends of a ``.pte`` file.

    Args:
        program: The file's content.

    Returns:
        ``{"methods": {name: {"operators": [...], "backends": [...]}}}``, names as the library registers them, sorted.

    Raises:
        BuildError: The executorch package is not installed, or the file is no program.
    """
    try:
        from executorch.exir._serialize._program import deserialize_pte_binary
    except ModuleNotFoundError as error:
        raise BuildError("expected the executorch package, found none: `pip install .[export]`") from error
    # A file of the schema's format has its mark after the first offset, as "ET12".
    if program[4:6] != b"ET":
        raise BuildError(f"expected an ExecuTorch program, found a file that begins with {program[:8]!r}")
    try:
        plans = deserialize_pte_binary(program).program.execution_plan
    except (ValueError, AssertionError, RuntimeError, struct.error) as error:
        raise BuildError(f"expected a whole ExecuTorch program, found a damaged one: {error}") from error
    return {
        "methods": {
            plan.name: {
                "operators": sorted({_full_name(operator) for operator in plan.operators}),
                "backends": sorted({delegate.id for delegate in plan.delegates}),
            }
            for plan in plans
        }
    }


def _full_name(operator: Any) -> str:
    return f"{operator.name}.{operator.overload}" if operator.overload else str(operator.name)


if __name__ == "__main__":
    json.dump(list_operators(Path(sys.argv[1]).read_bytes()), sys.stdout, indent=1)
