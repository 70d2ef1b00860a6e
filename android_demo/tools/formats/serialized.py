"""Reads animal-sniffer's signature files: an API's classes as a gzipped stream of serialized Java objects.

Only what such a file holds is understood (Java Object Serialization Specification, chapter 6): objects of class Clazz,
with a name, a set of members such as `length()I` and `out#Ljava/io/PrintStream;`, a superclass and interfaces.
"""

import dataclasses
import gzip
import struct
from pathlib import Path
from typing import Any

from tools.base.errors import BuildError

__all__ = ["ApiClass", "read_signature"]

_HEADER = b"\xac\xed\x00\x05"
_NULL, _REFERENCE, _CLASS_DESCRIPTION, _OBJECT, _STRING, _ARRAY = 0x70, 0x71, 0x72, 0x73, 0x74, 0x75
_BLOCK, _END_BLOCK = 0x77, 0x78
_FIRST_HANDLE = 0x7E0000
_HAS_WRITE_METHOD = 0x01
_SIZES = {"B": 1, "C": 2, "D": 8, "F": 4, "I": 4, "J": 8, "S": 2, "Z": 1}


@dataclasses.dataclass(frozen=True)
class ApiClass:
    """A class of an API: names of what it is and inherits, and its members (`name` and `(descriptor)`, or `#type`)."""

    name: str
    super_name: str
    interfaces: tuple[str, ...]
    members: frozenset[str]


@dataclasses.dataclass(frozen=True)
class _Description:
    """A class description of the stream: fields are (type, name)."""

    name: str
    flags: int
    fields: tuple[tuple[str, str], ...]
    parent: "_Description | None"


def read_signature(path: Path) -> dict[str, ApiClass]:
    """All classes of a signature file by internal name.

    Raises:
        BuildError: It is not such a file.
    """
    stream = gzip.decompress(path.read_bytes())
    if not stream.startswith(_HEADER):
        raise BuildError(f"{path}: expected serialized Java objects, found {stream[:4].hex()}")
    reader = _Reader(stream)
    found: dict[str, ApiClass] = {}
    while not reader.at_end and isinstance(one := reader.read(), dict):
        api_class = ApiClass(
            one["name"], one["superClass"] or "", tuple(one["superInterfaces"] or ()), frozenset(one["signatures"])
        )
        found[api_class.name] = api_class
    if not found:
        raise BuildError(f"{path}: expected classes, found none")
    return found


class _Reader:
    """Objects of a stream: strings, lists (of arrays and sets) and dictionaries of fields."""

    def __init__(self, stream: bytes) -> None:
        self._stream = stream
        self._position = len(_HEADER)
        self._handles: list[Any] = []

    @property
    def at_end(self) -> bool:
        return self._position >= len(self._stream)

    def _take(self, layout: str) -> Any:
        values = struct.unpack_from(">" + layout, self._stream, self._position)
        self._position += struct.calcsize(">" + layout)
        return values[0]

    def _text(self) -> str:
        size = self._take("H")
        self._position += size
        return self._stream[self._position - size : self._position].decode()

    def read(self) -> Any:
        """The next object."""
        kind = self._take("B")
        if kind == _NULL:
            return None
        if kind == _REFERENCE:
            return self._handles[self._take("I") - _FIRST_HANDLE]
        if kind == _STRING:
            text = self._text()
            self._handles.append(text)
            return text
        if kind == _CLASS_DESCRIPTION:
            return self._description()
        if kind == _ARRAY:
            self.read()
            items: list[Any] = []
            self._handles.append(items)
            items += [self.read() for _ in range(self._take("I"))]
            return items
        if kind == _OBJECT:
            return self._object()
        raise BuildError(f"signature: expected a known kind of object at {self._position - 1}, found {kind:#x}")

    def _description(self) -> _Description:
        name = self._text()
        self._position += 8  # the class's version
        handle = len(self._handles)
        self._handles.append(None)
        flags = self._take("B")
        fields = []
        for _ in range(self._take("H")):
            kind = chr(self._take("B"))
            fields.append((kind, self._text()))
            if kind in "[L":
                self.read()  # the field's class
        if self._take("B") != _END_BLOCK:
            raise BuildError(f"signature: expected no annotations of {name}, found some")
        description = _Description(name, flags, tuple(fields), self.read())
        self._handles[handle] = description
        return description

    def _object(self) -> Any:
        description = self.read()
        values: dict[str, Any] = {}
        handle = len(self._handles)
        self._handles.append(values)
        chain = []
        current: _Description | None = description
        while current:
            chain.append(current)
            current = current.parent
        for level in reversed(chain):
            for kind, name in level.fields:
                if kind in _SIZES:
                    self._position += _SIZES[kind]
                else:
                    values[name] = self.read()
            if level.flags & _HAS_WRITE_METHOD:
                items = self._written_by_hand()
                # A set writes its items itself.
                self._handles[handle] = items
        return self._handles[handle]

    def _written_by_hand(self) -> list[Any]:
        items: list[Any] = []
        while (kind := self._stream[self._position]) != _END_BLOCK:
            if kind == _BLOCK:
                self._position += 1
                size = self._take("B")
                self._position += size
            else:
                items.append(self.read())
        self._position += 1
        return items
