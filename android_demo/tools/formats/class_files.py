"""Java class files, read as far as the checks of the shrunk program need (JVM specification, chapter 4)."""

import dataclasses
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

from tools.base.errors import BuildError

__all__ = ["PRIVATE", "ClassFile", "Reference", "find_private_access", "parse_class", "read_jar", "resolve"]

PRIVATE = 0x0002

_MAGIC = 0xCAFEBABE
_UTF8, _CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE = 1, 7, 9, 10, 11, 12
_INVOKE_DYNAMIC = 18
# Bytes after the tag of each other kind of constant.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, _CLASS: 2, 8: 2, 9: 4, 10: 4, 11: 4, _NAME_AND_TYPE: 4, 15: 3, 16: 2, 17: 4, 18: 4}
_SIZES |= {19: 2, 20: 2}
_TWO_PLACES = {5, 6}


@dataclasses.dataclass(frozen=True, order=True)
class Reference:
    """A use of a field or method.

    Attributes:
        owner: Internal name of the class it is looked up in, such as java/lang/String; of an array, its descriptor.
        name: Of the member.
        descriptor: Type of the field, or parameters and result of the method.
    """

    owner: str
    name: str
    descriptor: str

    @property
    def is_method(self) -> bool:
        """Whether it is a method."""
        return self.descriptor.startswith("(")

    def __str__(self) -> str:
        return f"{self.owner}.{self.name}{'' if self.is_method else ' '}{self.descriptor}"


@dataclasses.dataclass(frozen=True)
class ClassFile:
    """A class: its names, members and references.

    Attributes:
        name: Internal name.
        super_name: Of its superclass; empty for java/lang/Object.
        interfaces: That it implements itself.
        members: Access flags by (name, descriptor), of fields and methods.
        references: Fields and methods that its code names.
        class_references: Classes that it names, arrays by their element.
        has_invoke_dynamic: Whether it has a call that is linked while it runs.
    """

    name: str
    super_name: str
    interfaces: tuple[str, ...]
    members: dict[tuple[str, str], int]
    references: frozenset[Reference]
    class_references: frozenset[str]
    has_invoke_dynamic: bool


def parse_class(content: bytes) -> ClassFile:
    """Read one class.

    Raises:
        BuildError: It is no class file, or is cut off.
    """
    try:
        return _parse(content)
    except (struct.error, IndexError, KeyError) as error:
        raise BuildError(f"class file of {len(content)} bytes: expected a whole one, found it cut off") from error


def _parse(content: bytes) -> ClassFile:
    magic, _, count = struct.unpack_from(">IIH", content, 0)
    if magic != _MAGIC:
        raise BuildError(f"class file: expected it to begin with {_MAGIC:#x}, found {magic:#x}")
    position = 10
    texts: dict[int, str] = {}
    numbers: dict[int, tuple[int, tuple[int, ...]]] = {}
    place = 1
    while place < count:
        tag = content[position]
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", content, position + 1)
            # Modified UTF-8; names that matter here are plain.
            texts[place] = content[position + 3 : position + 3 + size].decode("utf-8", "replace")
        elif tag in _SIZES:
            size = _SIZES[tag] - 2
            if tag in (_CLASS, _FIELD, _METHOD, _INTERFACE_METHOD, _NAME_AND_TYPE, _INVOKE_DYNAMIC):
                numbers[place] = tag, struct.unpack_from(f">{_SIZES[tag] // 2}H", content, position + 1)
        else:
            raise BuildError(f"class file: expected a known kind of constant, found {tag}")
        position += 3 + size
        place += 2 if tag in _TWO_PLACES else 1

    def class_name(index: int) -> str:
        return texts[numbers[index][1][0]] if index else ""

    references, named = set(), set()
    for index, (tag, values) in numbers.items():
        if tag == _CLASS:
            named.add(_element(class_name(index)))
        elif tag in (_FIELD, _METHOD, _INTERFACE_METHOD):
            name, descriptor = numbers[values[1]][1]
            references.add(Reference(class_name(values[0]), texts[name], texts[descriptor]))

    _, this, parent, interface_count = struct.unpack_from(">HHHH", content, position)
    position += 8
    interfaces = struct.unpack_from(f">{interface_count}H", content, position)
    position += 2 * interface_count
    members: dict[tuple[str, str], int] = {}
    for _ in range(2):  # fields, then methods
        (member_count,) = struct.unpack_from(">H", content, position)
        position += 2
        for _ in range(member_count):
            access, name, descriptor, attributes = struct.unpack_from(">HHHH", content, position)
            members[texts[name], texts[descriptor]] = access
            position += 8
            for _ in range(attributes):
                (size,) = struct.unpack_from(">I", content, position + 2)
                position += 6 + size
    return ClassFile(
        name=class_name(this),
        super_name=class_name(parent),
        interfaces=tuple(class_name(index) for index in interfaces),
        members=members,
        references=frozenset(references),
        class_references=frozenset(named - {""}),
        has_invoke_dynamic=any(tag == _INVOKE_DYNAMIC for tag, _ in numbers.values()),
    )


def _element(name: str) -> str:
    """Element class of an array; empty for primitive types."""
    element = name.lstrip("[")
    if element == name:
        return name
    return element[1:-1] if element.startswith("L") else ""


def read_jar(path: Path) -> dict[str, ClassFile]:
    """Read all classes of a jar, by name."""
    with zipfile.ZipFile(path) as jar:
        parsed = (parse_class(jar.read(name)) for name in jar.namelist() if name.endswith(".class"))
        return {one.name: one for one in parsed}


def ancestors(classes: dict[str, ClassFile], name: str) -> Iterator[str]:
    """A class and its ancestors, nearest first; those missing from `classes` are named, not followed."""
    waiting, seen = [name], set()
    while waiting:
        current = waiting.pop(0)
        if current in seen:
            continue
        seen.add(current)
        yield current
        known = classes.get(current)
        if known:
            waiting += [parent for parent in (known.super_name, *known.interfaces) if parent]


def resolve(classes: dict[str, ClassFile], reference: Reference) -> ClassFile | None:
    """Find the class of `classes` that declares a member; None where it is inherited from elsewhere."""
    for name in ancestors(classes, reference.owner):
        known = classes.get(name)
        if known and (reference.name, reference.descriptor) in known.members:
            return known
    return None


def find_private_access(classes: dict[str, ClassFile]) -> list[str]:
    """Find uses of another class's private members, a line for each: Java 11 allows some, Android's runtime none."""
    problems = []
    for one in classes.values():
        for reference in sorted(one.references):
            owner = resolve(classes, reference)
            if owner and owner.name != one.name and owner.members[reference.name, reference.descriptor] & PRIVATE:
                problems.append(f"{one.name} uses {reference}, which is private in {owner.name}")
    return problems
