"""Time of a product in each form, for its shape, in a runtime on this machine."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, Final

from lite_nlp.export.matrices import Form, Matrix, ProductCall, ProductShape

__all__ = ["forms_without_delay", "time_products"]

#: How much longer a form may take than the one before it, with more bytes, to count as no slower. Two measurements of
#: the same product differ by less, mostly.
_TOLERANCE: Final = 1.1

#: Products timed in one call, each with weights of its own, so that these are read from where a model's are: as many
#: of these as have no more weights in all, or the fewest.
_PRODUCTS, _WEIGHTS = (32, 16, 8, 4), 1 << 21

_ROUNDS: Final = 30


def time_products(shapes: Iterable[ProductShape], make: ProductCall) -> dict[ProductShape, dict[Form, float]]:
    """Seconds of a product of each shape in each form that it can have, the least of interleaved rounds.

    Args:
        shapes: Of products; equal ones are timed once.
        make: Of the runtime.
    """
    return {shape: _time_forms(shape, make) for shape in dict.fromkeys(shapes)}


def forms_without_delay(timed: Sequence[Mapping[Form, float]]) -> tuple[Form, ...]:
    """The forms that are worth their loss: those that, with fewer bytes than the one before, take no longer than it.

    Args:
        timed: In each runtime, seconds of each form, from the most bytes to the fewest.
    """
    kept: list[Form] = []
    for form in timed[0]:
        if not kept or all(seconds[form] <= _TOLERANCE * seconds[kept[-1]] for seconds in timed):
            kept.append(form)
    return tuple(kept)


def _time_forms(shape: ProductShape, make: ProductCall) -> dict[Form, float]:
    most = _WEIGHTS // (shape.inputs * shape.outputs)
    products = next((count for count in _PRODUCTS if count <= most), _PRODUCTS[-1])
    forms = Matrix(b"", "", shape.outputs, shape.inputs).forms
    calls = {form: make(shape, products, form) for form in forms}
    return {form: least / products for form, least in _least_times(calls).items()}


def _least_times(calls: Mapping[Form, Callable[[], Any]]) -> dict[Form, float]:
    """Seconds of each call; taken in turns, so that whatever else the machine does slows all of them."""
    for call in calls.values():
        call()
    times: dict[Form, list[float]] = {form: [] for form in calls}
    for _ in range(_ROUNDS):
        for form, call in calls.items():
            start = perf_counter()
            call()
            times[form].append(perf_counter() - start)
    return {form: min(found) for form, found in times.items()}
