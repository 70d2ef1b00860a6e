import json
import random
from collections.abc import Mapping

import pytest

from lite_nlp.budget.traced.graphs import GraphWork, Polynomial, fit_polynomials
from lite_nlp.budget.traced.work import WORK_KINDS, WorkKind
from lite_nlp.core.errors import BundleError, CountError

ONE = Polynomial(((1, 0, 0),))
NOTHING = Polynomial()


def _kinds(**changes: Polynomial) -> dict[WorkKind, Polynomial]:
    return {**dict.fromkeys(WORK_KINDS, NOTHING), **changes}  # type: ignore[dict-item]


def test_a_polynomial_is_its_sum_of_terms() -> None:
    polynomial = Polynomial.from_terms([(2, 0, 1), (3, 2, 1), (-5, 0, 0), (1, 0, 1)])
    # 3 S^2 C + 3 C - 5 at S = 4, C = 7.
    assert polynomial(4, 7) == 3 * 16 * 7 + 3 * 7 - 5
    assert str(polynomial) == "3 S^2 C + 3 C - 5"
    assert str(Polynomial.from_terms([(-4096, 1, 0)])) == "-4,096 S"


def test_terms_that_cancel_leave_zero() -> None:
    polynomial = Polynomial.from_terms([(7, 1, 0), (2, 0, 0)])
    assert polynomial - polynomial == NOTHING
    assert not polynomial - polynomial
    assert str(NOTHING) == "0"
    assert (polynomial + polynomial)(3, 1) == 2 * (7 * 3 + 2)


def test_the_fit_finds_the_polynomial_that_was_counted() -> None:
    generator = random.Random(11)
    terms = {
        kind: [(generator.randrange(-(10**9), 10**12), s, c) for s in range(3) for c in range(3)] for kind in WORK_KINDS
    }

    def count(source: int, capacity: int) -> Mapping[WorkKind, int]:
        return {kind: sum(f * source**s * capacity**c for f, s, c in terms[kind]) for kind in WORK_KINDS}

    fitted = fit_polynomials(count, max_source=512, max_capacity=300)
    assert {kind: sorted(polynomial.terms) for kind, polynomial in fitted.items()} == {
        kind: sorted(term for term in terms[kind] if term[0]) for kind in WORK_KINDS
    }


def test_kinds_without_work_are_zero() -> None:
    fitted = fit_polynomials(lambda source, capacity: {"matmul": 6 * source}, max_source=6, max_capacity=6)
    assert fitted == _kinds(matmul=Polynomial(((6, 1, 0),)))


@pytest.mark.parametrize(
    ("count", "message"),
    [
        (lambda source, capacity: source**3, "found 1 at 1 and 1 where"),
        # Another algorithm beyond a size that no grid point reaches.
        (lambda source, capacity: min(source, 200), "found 200 at 256 and 1 where 1 S gives 256"),
        (lambda source, capacity: source * (source + 1) // 2, "expected integer coefficients, found 1/2 for S"),
        # A special case for one single token.
        (lambda source, capacity: 8 * source if source > 1 else 7, "found 7 at 1 and 1 where 8 S gives 8"),
    ],
)
def test_what_follows_no_polynomial_is_refused(count, message: str) -> None:
    with pytest.raises(CountError, match=message):
        fit_polynomials(lambda source, capacity: {"matmul": count(source, capacity)}, max_source=256, max_capacity=30)


def test_sizes_that_a_graph_does_not_take_are_not_counted() -> None:
    def count(source: int, capacity: int) -> Mapping[WorkKind, int]:
        return {"matmul": 8 * source if source > 1 else 7}

    fitted = fit_polynomials(count, max_source=256, max_capacity=30, min_source=2)
    assert fitted == _kinds(matmul=Polynomial(((8, 1, 0),)))


def test_what_was_recorded_is_held_against_two_counts() -> None:
    counted: list[tuple[int, int]] = []

    def count(source: int, capacity: int) -> Mapping[WorkKind, int]:
        counted.append((source, capacity))
        return {"matmul": 8 * source + capacity}

    fitted = fit_polynomials(count, max_source=256, max_capacity=30)
    counted.clear()
    # As a manifest has it, without the kinds that do no work.
    recorded: dict[WorkKind, Polynomial] = {"matmul": fitted["matmul"]}
    assert fit_polynomials(count, max_source=256, max_capacity=30, recorded=recorded) == fitted
    assert counted == [(130, 17), (256, 30)]
    others: list[dict[WorkKind, Polynomial]] = [{}, {**recorded, "layer_norm": ONE}, {"matmul": ONE}]
    for other in others:
        assert fit_polynomials(count, max_source=256, max_capacity=30, recorded=other) == fitted


def test_bounds_too_small_to_tell() -> None:
    with pytest.raises(CountError, match="capacity: expected a bound of at least 6, found 5"):
        fit_polynomials(lambda source, capacity: {}, max_source=9, max_capacity=5)


WORK = GraphWork(
    encode=_kinds(matmul=Polynomial.from_terms([(10, 2, 0), (100, 1, 0)]), layer_norm=Polynomial(((4, 1, 0),))),
    decode_step=_kinds(matmul=Polynomial.from_terms([(7, 1, 0), (3, 0, 1), (1, 0, 0)])),
)


def test_a_translation_is_one_encoding_and_a_step_per_token_and_hypothesis() -> None:
    # Source 5, capacity 6: encode 10 * 25 + 500, a step 35 + 18 + 1.
    assert WORK.macs(5, 6) == {
        "matmul": 750 + 6 * 54,
        "convolution": 0,
        "contraction": 0,
        "layer_norm": 20,
        "batch_norm": 0,
    }
    assert WORK.macs(5, 6, beam=4)["matmul"] == 750 + 4 * 6 * 54


def test_json_and_back() -> None:
    content = WORK.to_json()
    assert content == {
        "encode": {"matmul": [[10, 2, 0], [100, 1, 0]], "layer_norm": [[4, 1, 0]]},
        "decode_step": {"matmul": [[7, 1, 0], [3, 0, 1], [1, 0, 0]]},
    }
    assert GraphWork.from_json(json.loads(json.dumps(content))) == WORK


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "expected the keys encode and decode_step, found None"),
        ({"encode": {}}, "expected the keys encode and decode_step"),
        ({"encode": {}, "decode_step": {"flops": []}}, "expected kinds of work"),
        ({"encode": {}, "decode_step": []}, "expected kinds of work"),
        ({"encode": {"matmul": "12"}, "decode_step": {}}, "expected a list of terms, found '12'"),
        ({"encode": {"matmul": [[1, 2]]}, "decode_step": {}}, r"expected terms of three integers.*found \[1, 2\]"),
        ({"encode": {"matmul": [[1.5, 0, 0]]}, "decode_step": {}}, "expected terms of three integers"),
        ({"encode": {"matmul": [[True, 0, 0]]}, "decode_step": {}}, "expected terms of three integers"),
        ({"encode": {"matmul": [[1, 3, 0]]}, "decode_step": {}}, "expected terms of three integers"),
        ({"encode": {"matmul": [[1, 0, -1]]}, "decode_step": {}}, "expected terms of three integers"),
    ],
)
def test_json_that_is_no_work(content, message: str) -> None:
    with pytest.raises(BundleError, match=message):
        GraphWork.from_json(content)
