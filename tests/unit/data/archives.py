"""Archives such as corpora are published in."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal


def write_tar(path: Path, files: Mapping[str, bytes], mode: Literal["w", "w:gz"] = "w:gz") -> Path:
    """Write ``files``, contents by name, to a tar at ``path``, which is returned."""
    with tarfile.open(path, mode) as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path
