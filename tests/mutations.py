"""Well-formed documents that are not what they should be: a key dropped, renamed, of another type or size."""

import copy
from typing import Any

from hypothesis import strategies as st

#: Values that a parser accepts and nobody expects, small and large.
ODD_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        -1,
        0,
        1,
        2,
        10**9,
        1 << 31,
        1 << 63,
        10**4000,
        0.5,
        1e300,
        "",
        "x",
        "../x",
        "a\nb",
        "é" * 5000,
    ),
    *([], {}, [[]], [{}] * 300, {"": None}, {str(number): number for number in range(300)}),
)


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths of all values within a document."""
    if isinstance(document, dict):
        inside = list(document.items())
    else:
        inside = list(enumerate(document)) if isinstance(document, list) else []
    return [found for key, value in inside for found in ((*path, key), *places(value, (*path, key)))]


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """The document with one to three places changed."""
    result = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(places(result)))
        parent = result
        for key in path[:-1]:
            parent = parent[key]
        _change(draw, parent, path[-1])
    return result


def _change(draw: st.DrawFn, parent: Any, key: Any) -> None:
    kind = draw(st.sampled_from(["drop", "replace", "replace", "double", "rename", "swap"]))
    keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
    if kind == "drop":
        del parent[key]
    elif kind == "double" and isinstance(parent, list):
        parent.append(copy.deepcopy(parent[key]))
    elif kind == "rename" and isinstance(parent, dict):
        parent[draw(st.sampled_from(["", "tokens", "logits", "x" * 400, key + "2", "manifest.json"]))] = parent.pop(key)
    elif kind == "swap":
        other = draw(st.sampled_from(keys))
        parent[key], parent[other] = parent[other], parent[key]
    else:
        parent[key] = copy.deepcopy(draw(st.sampled_from(ODD_VALUES)))
