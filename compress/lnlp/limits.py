"""The limits of a container: what a file of N bytes may honestly need, checked before anything is allocated by it.

Together they keep a reader within 200 MB + 40 N of memory and ten seconds + linear time, whatever the file holds.
``FORMAT.md`` states them in the table "Limits"; ``Limits.kt`` in the Android app holds the same numbers, and a golden
vector compares the two.
"""

from typing import Final

from lite_nlp.core.parsing import MAX_DOCUMENT_BYTES, MAX_VALUES

__all__ = [
    "DEFAULT_SCALE_BITS",
    "MAX_ALIASES",
    "MAX_CENTROIDS",
    "MAX_CODED_MERGES",
    "MAX_CONTAINER_BYTES",
    "MAX_DIMENSIONS",
    "MAX_FILES",
    "MAX_HEADER_BYTES",
    "MAX_HEADER_VALUES",
    "MAX_LISTED",
    "MAX_SCALE_BITS",
    "MAX_TENSORS",
    "MAX_TOKEN_CHARACTERS",
    "MIN_SCALE_BITS",
    "SYMBOLS_PER_LANE",
    "limits_of",
    "max_file_bytes",
    "max_grid_tables",
    "max_scale_bits",
    "max_weights",
]

#: The whole file: the app's reader indexes bytes by 31 bits.
MAX_CONTAINER_BYTES: Final = (1 << 31) - 1

#: The header once inflated, and the values in its JSON: as for every document (10,000 matrices take 80,000 values).
MAX_HEADER_BYTES: Final = MAX_DOCUMENT_BYTES
MAX_HEADER_VALUES: Final = MAX_VALUES

#: Entries of the lists; a tensor costs some 20 bytes of file, but a reader some microseconds and a table.
MAX_TENSORS: Final = 10_000
MAX_ALIASES: Final = 10_000
MAX_FILES: Final = 64

#: Dimensions of a shape; the deepest layer in use has five.
MAX_DIMENSIONS: Final = 8

#: Weights in all: 64 MB decoded whatever the file's size (10M parameters pruned to nothing), beyond that a bit for each
#: weight, which all encodings but the entropy coder take anyway, and never more than a reader can index.
_BASE_WEIGHTS: Final = 1 << 24
_WEIGHTS_PER_BYTE: Final = 8
_MAX_WEIGHTS: Final = 1 << 28

#: All embedded files together, once inflated: tokenizers take some megabytes.
_BASE_FILE_BYTES: Final = 16 << 20
_FILE_BYTES_PER_BYTE: Final = 2

#: Centroids of a codebook, whose indices then fit 12 bits.
MAX_CENTROIDS: Final = 4096

#: The entropy coder's frequencies sum to 2 ** P. A table has so many entries: above the default, P must be justified
#: by centroids, each of which takes three bytes of file.
MIN_SCALE_BITS: Final = 8
DEFAULT_SCALE_BITS: Final = 12
MAX_SCALE_BITS: Final = 15
_SLOTS_PER_CENTROID: Final = 8

#: Weights in a lane of the entropy coder, each of which takes four bytes of file: a stream has as few as that needs.
SYMBOLS_PER_LANE: Final = 8192


#: Tables for the levels of a grid, each of which takes memory and time but nothing of the file.
_BASE_GRID_TABLES: Final = 2
_WEIGHTS_PER_GRID_TABLE: Final = 256

#: Merges of a tokenizer that is stored by them, each of which takes some ten microseconds, and characters of a token.
MAX_CODED_MERGES: Final = 100_000
MAX_TOKEN_CHARACTERS: Final = 4096

#: Numbers in a list that are not all equal, such as the classes of a matrix's rows.
MAX_LISTED: Final = 1 << 20


def max_weights(file_bytes: int) -> int:
    """Most weights in a file of so many bytes, an empty dimension counted as 1."""
    return min(_MAX_WEIGHTS, _BASE_WEIGHTS + _WEIGHTS_PER_BYTE * file_bytes)


def max_file_bytes(file_bytes: int) -> int:
    """Largest size of all embedded files together, once inflated, in a container of so many bytes."""
    return _BASE_FILE_BYTES + _FILE_BYTES_PER_BYTE * file_bytes


def max_scale_bits(num_centroids: int) -> int:
    """Largest scale of the entropy coder for a codebook of so many centroids."""
    return min(MAX_SCALE_BITS, max(DEFAULT_SCALE_BITS, (_SLOTS_PER_CENTROID * num_centroids).bit_length() - 1))


def max_grid_tables(num_weights: int) -> int:
    """Most tables of the entropy coder for a tensor of so many weights on a grid."""
    return _BASE_GRID_TABLES + num_weights // _WEIGHTS_PER_GRID_TABLE


def limits_of(file_bytes: int, num_centroids: int, num_weights: int) -> dict[str, int]:
    """All limits by name, for a file, a codebook and a tensor of that size: another implementation compares its own."""
    return {
        "header_bytes": MAX_HEADER_BYTES,
        "header_values": MAX_HEADER_VALUES,
        "tensors": MAX_TENSORS,
        "aliases": MAX_ALIASES,
        "files": MAX_FILES,
        "dimensions": MAX_DIMENSIONS,
        "weights": max_weights(file_bytes),
        "file_bytes": max_file_bytes(file_bytes),
        "centroids": MAX_CENTROIDS,
        "min_scale_bits": MIN_SCALE_BITS,
        "max_scale_bits": max_scale_bits(num_centroids),
        "grid_tables": max_grid_tables(num_weights),
        "symbols_per_lane": SYMBOLS_PER_LANE,
        "listed": MAX_LISTED,
        "coded_merges": MAX_CODED_MERGES,
        "token_characters": MAX_TOKEN_CHARACTERS,
    }
