"""Recipes of the members that a compact bundle describes instead of storing, as its files say them. Imports no torch.

A member is a prediction, put together from parts, XOR a residual; ``member_maker`` makes it. ``docs/export.md``
specifies both for readers in other languages.
"""

import re
import zlib
from typing import Annotated, Any, Final, Self

from pydantic import FailFast, Field, field_validator, model_validator

from lite_nlp.core.errors import BundleError
from lite_nlp.core.parsing import parse_json, parsing
from lite_nlp.export.runtime.inflating import inflate
from lite_nlp.export.runtime.layout import ManifestSection
from lite_nlp.export.runtime.limits import (
    MAX_INTEGER,
    MAX_MADE_BYTES,
    MAX_MANIFEST_BYTES,
    MAX_PACKED_MEMBERS,
    MAX_PARTS,
    MAX_SINUSOID_COLUMNS,
    MAX_SINUSOID_ROWS,
    MAX_TEXT,
    at_most,
)
from lite_nlp.export.runtime.rounded import RoundedTensor
from lite_nlp.export.runtime.scaled import ScaledTensor

__all__ = [
    "FilePart",
    "IntegersPart",
    "Packed",
    "PackedMember",
    "Part",
    "Recipes",
    "RecipesFile",
    "ScalesPart",
    "SinusoidPart",
    "SinusoidTable",
    "TensorPart",
    "read_recipes",
]

#: Made members become files wherever a bundle is unpacked.
_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")


class _Placed(ManifestSection):
    """What lies somewhere in a member.

    Attributes:
        offset: Of its first byte in the member.
    """

    offset: int = Field(ge=0, le=MAX_INTEGER)


class TensorPart(_Placed):
    """A tensor of the container, as fp32 values.

    Attributes:
        tensor: Its name.
        transposed: Whether it is written as a matrix transposed; dimensions of size 1 do not count.
    """

    tensor: str
    transposed: bool = False


class FilePart(_Placed):
    """A file of the container, as it is.

    Attributes:
        file: Its name.
    """

    file: str


class _RowsPart(_Placed):
    """What stands for some rows of a matrix of the container that is among ``Recipes.rounded``.

    Attributes:
        rows: The first, and the one behind the last.
    """

    rows: tuple[Annotated[int, Field(ge=0, le=MAX_INTEGER)], Annotated[int, Field(ge=0, le=MAX_INTEGER)]]

    @field_validator("rows", mode="before")
    @classmethod
    def _pair(cls, rows: Any) -> Any:
        return tuple(rows) if isinstance(rows, list) else rows


class IntegersPart(_RowsPart):
    """Integers of a matrix: a byte each, or two of 4 bits in a byte.

    Attributes:
        integers: Name of the matrix.
        transposed: Whether they are written column by column; of 8 bits alone.
    """

    integers: str
    transposed: bool = False


class ScalesPart(_RowsPart):
    """Scales of the integers of a matrix.

    Attributes:
        scales: Name of the matrix.
        bf16: Whether they are written as numbers of bf16 instead of fp32.
    """

    scales: str
    bf16: bool = False


class SinusoidTable(ManifestSection):
    """Sizes of a table of sinusoidal positions."""

    rows: int = Field(ge=1, le=MAX_SINUSOID_ROWS)
    columns: int = Field(ge=2, le=MAX_SINUSOID_COLUMNS)


class SinusoidPart(_Placed):
    """A table of sinusoidal positions, as fp32 values.

    Attributes:
        sinusoid: Its sizes.
    """

    sinusoid: SinusoidTable


Part = TensorPart | FilePart | IntegersPart | ScalesPart | SinusoidPart

_Parts = Annotated[tuple[Annotated[Part, Field(union_mode="left_to_right")], ...], FailFast(), at_most(MAX_PARTS)]

#: The keys of which a part has one.
_KINDS: Final = frozenset({"tensor", "file", "integers", "scales", "sinusoid"})


class PackedMember(ManifestSection):
    """Description of one member, but for the parts of its prediction, which are in :class:`Recipes`.

    Attributes:
        size_bytes: Of the member.
        sha256: Of the member.
        residual: File with a zlib stream of as many bytes.
    """

    size_bytes: int = Field(ge=0, le=MAX_MADE_BYTES)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    residual: str


class Recipes(ManifestSection):
    """What the predictions of the members are made of.

    Attributes:
        scaled: Tensors that the members have scaled, in the order of their exponents, each once.
        rounded: Matrices that the members have as integers, in the order of their codes, each once.
        parts: Of each member, by offset; where there is none the prediction is zero.
    """

    scaled: Annotated[tuple[ScaledTensor, ...], FailFast(), at_most(MAX_PARTS)] = ()
    rounded: Annotated[tuple[RoundedTensor, ...], FailFast(), at_most(MAX_PARTS)] = ()
    parts: Annotated[dict[str, _Parts], at_most(MAX_PACKED_MEMBERS)]

    @field_validator("parts", mode="before")
    @classmethod
    def _not_both(cls, parts: Any) -> Any:
        for listed in parts.values() if isinstance(parts, dict) else ():
            if isinstance(listed, list) and any(
                isinstance(part, dict) and len(_KINDS & part.keys()) > 1 for part in listed
            ):
                raise ValueError(f"expected one of {', '.join(sorted(_KINDS))} in each part, found more than one")
        return parts

    @model_validator(mode="after")
    def _each_once(self) -> Self:
        for what, listed in (("scaled", self.scaled), ("rounded", self.rounded)):
            if len({entry.tensor for entry in listed}) != len(listed):
                raise ValueError(f"{what}: expected each tensor once, found one twice")
        return self

    def to_stream(self) -> tuple[bytes, int]:
        """The zlib stream of the document, and the document's size."""
        document = self.model_dump_json(exclude_defaults=True).encode("utf-8")
        return zlib.compress(document, 9), len(document)


class RecipesFile(ManifestSection):
    """Where the recipes are.

    Attributes:
        file: With a zlib stream of a JSON document.
        size_bytes: Of the document.
    """

    file: str
    size_bytes: int = Field(ge=0, le=MAX_MANIFEST_BYTES)


class Packed(ManifestSection):
    """The members that a compact bundle describes.

    Attributes:
        container: File with the tensors and files of the members' parts.
        recipes: What the members are made of.
        exponents: File with a zlib stream of the exponents of ``Recipes.scaled``, one after another; None without.
        codes: Likewise with the codes of ``Recipes.rounded``.
        members: By name.
    """

    container: str
    recipes: RecipesFile
    exponents: str | None = None
    codes: str | None = None
    members: Annotated[dict[str, PackedMember], at_most(MAX_PACKED_MEMBERS)]

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for name in self.members:
            if not _PLAIN_NAME.fullmatch(name):
                raise ValueError(f"members: expected plain file names, found {name[:MAX_TEXT]!r}")
        if self.made_bytes > MAX_MADE_BYTES:
            raise ValueError(f"members: expected at most {MAX_MADE_BYTES} bytes in all, found {self.made_bytes}")
        return self

    @property
    def made_bytes(self) -> int:
        """Bytes of all members."""
        return sum(member.size_bytes for member in self.members.values())

    @property
    def ingredients(self) -> set[str]:
        """Files that the members are made of, and that nothing else needs."""
        named = {self.container, self.recipes.file, *(member.residual for member in self.members.values())}
        return named | {name for name in (self.exponents, self.codes) if name is not None}


def read_recipes(packed: Packed, stream: bytes, *, source: str) -> Recipes:
    """The recipes of a compact bundle.

    Args:
        packed: The members that they are for.
        stream: Content of the file that ``packed.recipes`` names.
        source: Stands for that file in messages.

    Raises:
        BundleError: If they are no recipes for exactly these members.
    """
    content = inflate(stream, packed.recipes.size_bytes, source=source)
    document = parse_json(content, source=source, error=BundleError, max_bytes=MAX_MANIFEST_BYTES)
    with parsing(source, "recipes of members", BundleError):
        recipes = Recipes.model_validate(document)
    if set(recipes.parts) != set(packed.members):
        raise BundleError(
            f"{source}: expected recipes for {', '.join(sorted(packed.members))}, found some for "
            f"{', '.join(sorted(recipes.parts))[:MAX_TEXT]}"
        )
    return recipes
