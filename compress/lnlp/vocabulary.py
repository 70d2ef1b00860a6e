"""Tokenizers of byte-pair merges in few bytes: a ``tokenizer.json`` as its merges and the text around them.

The vocabulary of such a document follows from its special tokens, the 256 bytes and the merges; each merge is two ids,
coded bit by bit with probabilities that adapt (Witten, Neal and Cleary 1987; the binary range coder is that of LZMA). A
document that this does not give back byte for byte is stored otherwise. ``FORMAT.md``, section "Merges".
"""

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from lite_nlp.compress.lnlp.limits import MAX_CODED_MERGES, MAX_TOKEN_CHARACTERS
from lite_nlp.core.errors import ContainerError
from lite_nlp.core.parsing import parse_json
from lite_nlp.data.tokenizer_document import BYTE_ALPHABET

__all__ = ["decode_vocabulary", "encode_vocabulary"]

#: The characters that spell the bytes, in the order of their ids.
_ALPHABET: Final = sorted(BYTE_ALPHABET)

#: Separates the parts of the text around vocabulary and merges; JSON holds no such character.
_SEPARATOR: Final = b"\0"

#: The text of options is some thousand bytes.
_MAX_SKELETON_BYTES: Final = 1 << 16

_RANGE_BITS: Final = 32
_RANGE_MIN: Final = 1 << 24

Merges = Iterable[tuple[int, int]]


def encode_vocabulary(content: bytes) -> bytes | None:
    """The bytes that a ``tokenizer.json`` is stored as; none if they would not give it back."""
    try:
        document = parse_json(content, source="tokenizer", error=ContainerError, max_bytes=1 << 24, max_values=1 << 22)
        types, spelled = document["model"]["vocab"], document["model"]["merges"]
        first = types[_ALPHABET[0]]
        merges = [(types[left], types[right]) for left, right in spelled]
        entries, pairs = _texts(first, merges, len(content))
    except (ContainerError, KeyError, TypeError, ValueError):
        return None
    head, _, rest = content.partition(entries)
    middle, _, tail = rest.partition(pairs) if pairs else (rest, b"", b"")
    skeleton = zlib.compress(_SEPARATOR.join((head, middle, tail)), 9)
    if len(skeleton) >= 1 << 16 or not 1 <= first < 1 << 16 or len(merges) > MAX_CODED_MERGES:
        return None
    sizes = first.to_bytes(2, "little") + len(merges).to_bytes(3, "little") + len(skeleton).to_bytes(2, "little")
    stored = sizes + skeleton + _encode_merges(first, merges)
    try:
        return stored if decode_vocabulary(stored, len(content)) == content else None
    except ContainerError:
        return None


def decode_vocabulary(stored: bytes | memoryview, size: int) -> bytes:
    """The ``tokenizer.json`` of ``size`` bytes.

    Raises:
        ContainerError: If these bytes give no document of that size.
    """
    if len(stored) < 7:
        raise ContainerError(f"expected 7 bytes of sizes, found {len(stored)}")
    first, num_merges, skeleton_size = (
        int.from_bytes(stored[:2], "little"),
        int.from_bytes(stored[2:5], "little"),
        int.from_bytes(stored[5:7], "little"),
    )
    if not first or num_merges > MAX_CODED_MERGES:
        raise ContainerError(
            f"expected special tokens and at most {MAX_CODED_MERGES} merges, found {first} and {num_merges}"
        )
    inflater = zlib.decompressobj()
    try:
        skeleton = inflater.decompress(stored[7 : 7 + skeleton_size], _MAX_SKELETON_BYTES)
    except zlib.error as error:
        raise ContainerError(f"expected a zlib stream: {error}") from error
    parts = skeleton.split(_SEPARATOR)
    if not inflater.eof or inflater.unused_data or len(parts) != 3 or len(skeleton) >= _MAX_SKELETON_BYTES:
        raise ContainerError("expected a zlib stream of three parts of text, found another")
    entries, pairs = _texts(first, _decode_merges(stored[7 + skeleton_size :], first, num_merges), size)
    content = b"".join((parts[0], entries, parts[1], pairs, parts[2]))
    if len(content) != size:
        raise ContainerError(f"expected a document of {size} bytes, found {len(content)}")
    return content


def _texts(first: int, merges: Merges, size: int) -> tuple[bytes, bytes]:
    """The text of the types behind the special tokens, and of the merges, as JSON with an indent of one."""
    types = list(_ALPHABET)
    known = set(types)
    pairs = []
    length = 0
    for left, right in merges:
        if not (0 <= left - first < len(types) and 0 <= right - first < len(types)):
            raise ContainerError(f"expected ids of types before the merge, found {left} and {right}")
        made = types[left - first] + types[right - first]
        pairs.append(f'\n   [\n    "{_escaped(types[left - first])}",\n    "{_escaped(types[right - first])}"\n   ]')
        length += len(pairs[-1])
        if len(made) > MAX_TOKEN_CHARACTERS or length > size:
            raise ContainerError(f"expected a document of {size} bytes, found more text")
        if made not in known:
            known.add(made)
            types.append(made)
    entries = [f',\n   "{_escaped(text)}": {first + place}' for place, text in enumerate(types)]
    return "".join(entries).encode(), ",".join(pairs).encode()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


class _Tree:
    """Counts of ids by their bits, the highest first; every bit has been seen once each way before the first."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.zeros = [1] * (1 << width)
        self.ones = [1] * (1 << width)


def _trees(first: int, num_merges: int) -> tuple[_Tree, _Tree]:
    """For the first and the second id of a merge."""
    width = (first + len(_ALPHABET) + num_merges - 1).bit_length()
    return _Tree(width), _Tree(width)


def _encode_merges(first: int, merges: Sequence[tuple[int, int]]) -> bytes:
    trees = _trees(first, len(merges))
    low, span, out = 0, (1 << _RANGE_BITS) - 1, bytearray()
    for merge in merges:
        for number, tree in zip(merge, trees, strict=True):
            node = 1
            for place in range(tree.width - 1, -1, -1):
                zeros, ones = tree.zeros[node], tree.ones[node]
                bound = span // (zeros + ones) * zeros
                bit = number >> place & 1
                if bit:
                    low, span = low + bound, span - bound
                    tree.ones[node] += 1
                else:
                    span = bound
                    tree.zeros[node] += 1
                node = 2 * node + bit
                while span < _RANGE_MIN:
                    low = _emit(out, low)
                    span <<= 8
    for _ in range(4):
        low = _emit(out, low)
    return bytes(out)


def _emit(out: bytearray, low: int) -> int:
    """Move the top byte of the interval's start to the output, and a carry into what is there."""
    if low >> _RANGE_BITS:
        place = len(out) - 1
        while out[place] == 0xFF:
            out[place] = 0
            place -= 1
        out[place] += 1
    out.append(low >> 24 & 0xFF)
    return (low & 0xFFFFFF) << 8


def _decode_merges(stored: bytes | memoryview, first: int, num_merges: int) -> Iterator[tuple[int, int]]:
    trees = _trees(first, num_merges)
    code, span, at = int.from_bytes(stored[:4], "big"), (1 << _RANGE_BITS) - 1, 4
    for _ in range(num_merges):
        found = []
        for tree in trees:
            node, zeros_of, ones_of = 1, tree.zeros, tree.ones
            for _ in range(tree.width):
                zeros = zeros_of[node]
                bound = span // (zeros + ones_of[node]) * zeros
                if code < bound:
                    span = bound
                    zeros_of[node] = zeros + 1
                    node += node
                else:
                    code -= bound
                    span -= bound
                    ones_of[node] += 1
                    node += node + 1
                while span < _RANGE_MIN:
                    # Beyond the end are zeros; that none was taken is checked below.
                    code = code << 8 | (stored[at] if at < len(stored) else 0)
                    at += 1
                    span <<= 8
            found.append(node - (1 << tree.width))
        yield found[0], found[1]
    if code or at != len(stored):
        raise ContainerError(f"expected the merges to end with their {at} bytes, found {len(stored)}")
