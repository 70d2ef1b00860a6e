"""The limits of a bundle, in one table; ``docs/export.md`` states them, and the app has the same. Imports no torch.

Whatever a file says, reading it costs a bounded multiple of its size: each of these numbers is checked before anything
is allocated for what it limits. Honest bundles stay far below them.
"""

from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

__all__ = [
    "MADE_BYTES_ALWAYS",
    "MADE_BYTES_PER_STORED",
    "MAX_BATCH",
    "MAX_BUNDLE_BYTES",
    "MAX_COUNT",
    "MAX_CUTS",
    "MAX_FILES",
    "MAX_GRAPHS",
    "MAX_INTEGER",
    "MAX_LABELS",
    "MAX_MADE_BYTES",
    "MAX_MANIFEST_BYTES",
    "MAX_NAME_BYTES",
    "MAX_OPERATORS",
    "MAX_PACKED_MEMBERS",
    "MAX_PARTS",
    "MAX_RANK",
    "MAX_SCORES",
    "MAX_SINUSOID_COLUMNS",
    "MAX_SINUSOID_ROWS",
    "MAX_STATE_BYTES",
    "MAX_STATE_TENSORS",
    "MAX_TERMS",
    "MAX_TEXT",
    "MAX_TOKENS",
    "MAX_VERSIONS",
    "TOKENIZER_BYTES_ALWAYS",
    "Text",
    "at_most",
]

#: Of the file: offsets in a ``.zip`` file without extensions have 32 bits.
MAX_BUNDLE_BYTES: Final = 4_000_000_000

#: Of ``manifest.json``, some fifty thousand in practice; the number of values in it is that of ``core.parsing``.
MAX_MANIFEST_BYTES: Final = 4_000_000

#: Members beside the manifest; a runtime has four at most.
MAX_FILES: Final = 64

#: Bytes of a member's name, as file systems have it.
MAX_NAME_BYTES: Final = 255

#: Members that a compact bundle describes, and parts of one; an encoder-decoder has some ten tensors per layer.
MAX_PACKED_MEMBERS: Final = 16
MAX_PARTS: Final = 8192

#: Parts of equal size that a matrix of integers may be cut into: for each of them a reader may decode all of it.
MAX_CUTS: Final = 16

#: Bytes of all members that a compact bundle describes: never more than the first, nor than the second and for each
#: byte of the file the third. Weights that were compressed 20 times are 40 times as large for two runtimes, in fp32.
MAX_MADE_BYTES: Final = 1 << 30
MADE_BYTES_ALWAYS: Final = 64 << 20
MADE_BYTES_PER_STORED: Final = 48

#: The tokenizer, which is parsed as a whole: as large as this and the file together, which leaves a type 60 bytes where
#: the model has 60 weights for it.
TOKENIZER_BYTES_ALWAYS: Final = 4 << 20

#: A table of positions: rows as fp32 counts them exactly, columns as wide as the widest model.
MAX_SINUSOID_ROWS: Final = 1 << 24
MAX_SINUSOID_COLUMNS: Final = 1 << 16

#: State tensors (a decoder layer has four or so), their dimensions, and their bytes for one row at the largest sizes.
MAX_STATE_TENSORS: Final = 256
MAX_RANK: Final = 8
MAX_STATE_BYTES: Final = 256 << 20

#: Source tokens and decoder steps; rows of a call. Types of a vocabulary: ``core.bounds``.
MAX_TOKENS: Final = 1 << 16
MAX_BATCH: Final = 1 << 10

#: Names of packages, of graphs and of test sets.
MAX_VERSIONS: Final = 64
MAX_GRAPHS: Final = 16
MAX_SCORES: Final = 64

#: Operators of a runtime's own that graphs need.
MAX_OPERATORS: Final = 64

#: Classes of a classifier, of which the training knows 1,000.
MAX_LABELS: Final = 4096

#: Terms of a polynomial: nine pairs of powers, each once, and some that are not summed.
MAX_TERMS: Final = 64

#: Characters of a name or another word of the manifest.
MAX_TEXT: Final = 256

#: Options of the search, which are 32-bit integers in the app.
MAX_COUNT: Final = (1 << 31) - 1

#: Offsets, which the app counts in 64 bits.
MAX_INTEGER: Final = (1 << 63) - 1

Text = Annotated[str, Field(max_length=MAX_TEXT)]


def at_most(limit: int) -> BeforeValidator:
    """Refuse a list or object of more entries before any of them is looked at; a list becomes a tuple."""

    def check(value: Any) -> Any:
        if isinstance(value, list | tuple | dict) and len(value) > limit:
            raise ValueError(f"expected at most {limit} entries, found {len(value)}")
        return tuple(value) if isinstance(value, list) else value

    return BeforeValidator(check)
