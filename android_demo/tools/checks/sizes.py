"""Sizes of the package, part by part."""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path

from tools.base.errors import BuildError

__all__ = ["Part", "check_size", "list_parts", "render_parts", "write_parts"]

_REST = "signatures, directory"


@dataclasses.dataclass(frozen=True)
class Part:
    """One row of the table: bytes in the package, and of the file as it is installed."""

    name: str
    packed_bytes: int
    plain_bytes: int


def list_parts(packed: Mapping[str, int], plain: Mapping[str, int], total_bytes: int) -> list[Part]:
    """Parts of a package, the largest first; they add up to its size.

    Args:
        packed: Bytes that each entry takes in the zip, by name.
        plain: Bytes of each entry's content.
        total_bytes: Of the signed package.
    """
    grouped: dict[str, list[int]] = {}
    for name, size in packed.items():
        group = grouped.setdefault(_group(name), [0, 0])
        group[0] += size
        group[1] += plain[name]
    parts = [Part(name, *sizes) for name, sizes in grouped.items()]
    rest = total_bytes - sum(part.packed_bytes for part in parts)
    return [*sorted(parts, key=lambda part: (-part.packed_bytes, part.name)), Part(_REST, rest, rest)]


def _group(name: str) -> str:
    if name.startswith("lib/"):
        return name.rsplit("/", 1)[1]
    if name.startswith("assets/models/"):
        return f"model {name.rsplit('/', 1)[1]}"
    if name.startswith("assets/"):
        return name.removeprefix("assets/")
    return "program (classes.dex)" if name.endswith(".dex") else "resources and manifest"


def render_parts(parts: list[Part]) -> str:
    """Render the table as text."""
    rows = [(part.name, f"{part.packed_bytes:,}", f"{part.plain_bytes:,}") for part in parts]
    rows.append(("the package", f"{sum(p.packed_bytes for p in parts):,}", f"{sum(p.plain_bytes for p in parts):,}"))
    head = ("part", "in the package", "unpacked")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(3)]
    return "\n".join(f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in [head, *rows])


def write_parts(path: Path, parts: list[Part], *, abi: str, sha256: str, limit_bytes: int) -> None:
    """Write the table as JSON."""
    content = {
        "schema_version": 1,
        "abi": abi,
        "sha256": sha256,
        "size_bytes": sum(part.packed_bytes for part in parts),
        "limit_bytes": limit_bytes,
        "parts": [dataclasses.asdict(part) for part in parts],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def check_size(parts: list[Part], limit_bytes: int) -> None:
    """Check the package against its size limit.

    Raises:
        BuildError: It is larger; the table is in the message.
    """
    total = sum(part.packed_bytes for part in parts)
    if total > limit_bytes:
        raise BuildError(f"package: expected at most {limit_bytes:,} bytes, found {total:,}\n{render_parts(parts)}")
