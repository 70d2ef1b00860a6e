"""Cases: which file is made of which seed follows from two numbers alone."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from tests.fuzz.bundles import mutate_bundle
from tests.fuzz.containers import mutate_container
from tests.fuzz.documents import mutate_config, mutate_json, mutate_tokenizer
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.readers import KINDS

__all__ = ["Case", "make_case"]

_MUTATORS: Final[Mapping[str, Callable[[Random, bytes], bytes]]] = {
    "container": mutate_container,
    "bundle": mutate_bundle,
    "manifest": mutate_json,
    "tokenizer": mutate_tokenizer,
    "json": mutate_json,
    "config": mutate_config,
}


@dataclass(frozen=True)
class Case:
    """A file to judge.

    Attributes:
        kind: A key of ``KINDS``.
        name: Of the file.
        content: Of it.
    """

    kind: str
    name: str
    content: bytes


def make_case(seeds: Mapping[str, list[bytes]], seed: int, index: int) -> Case:
    """The case of this number: a seed as it is for the first ones, a mutated one after them.

    Args:
        seeds: From ``make_seeds``.
        seed: Of the random numbers.
        index: Number of the case, from 0 on.
    """
    kinds = list(KINDS)
    kind = kinds[index % len(kinds)]
    turn = index // len(kinds)
    if turn < len(seeds[kind]):
        content = seeds[kind][turn]
    else:
        rng = Random(f"{seed}:{index}")
        chosen = rng.choice(seeds[kind])
        try:
            content = _MUTATORS[kind](rng, chosen)
        except RecursionError:
            # Wrapped too often for our own writers; the readers get such depth as text.
            content = mutate_bytes(rng, chosen)
    return Case(kind, f"{kind}-{seed}-{index}{KINDS[kind].suffix}", content)
