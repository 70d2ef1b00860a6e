"""animal-sniffer's signature files: the classes of an API as a gzipped stream of serialized Java objects.

Each object is of animal-sniffer's class Clazz: a name, a superclass, interfaces, and a set of members such as
`length()I` and `out#Ljava/io/PrintStream;`.
"""

import dataclasses
import struct
from pathlib import Path

from javaobj.v2.beans import JavaInstance
from javaobj.v2.main import load

from tools.base.errors import BuildError

__all__ = ["ApiClass", "read_signature"]


@dataclasses.dataclass(frozen=True)
class ApiClass:
    """A class of an API: names of it, its superclass and interfaces; members as `name(descriptor)` or `name#type`."""

    name: str
    super_name: str
    interfaces: tuple[str, ...]
    members: frozenset[str]


def read_signature(path: Path) -> dict[str, ApiClass]:
    """Read all classes of a signature file, by internal name.

    Raises:
        BuildError: It is not such a file.
    """
    try:
        with path.open("rb") as file:
            content = load(file)
        objects = [one for one in content if isinstance(one, JavaInstance)] if isinstance(content, list) else []
        classes = [
            ApiClass(
                str(one.name),
                str(one.superClass or ""),
                tuple(str(name) for name in one.superInterfaces or ()),
                frozenset(str(member) for member in one.signatures),
            )
            for one in objects
        ]
    except (AttributeError, EOFError, OSError, ValueError, struct.error) as error:
        raise BuildError(f"{path}: expected serialized classes of animal-sniffer, found otherwise: {error}") from error
    if not classes:
        raise BuildError(f"{path}: expected classes, found none")
    return {one.name: one for one in classes}
