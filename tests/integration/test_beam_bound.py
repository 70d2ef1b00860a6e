"""A beam that no search can have is wrong usage, wherever it is given."""

import pytest

import lite_nlp
from lite_nlp.core.errors import UsageError


@pytest.mark.parametrize(
    "command", [("translate", "--text", "x"), ("evaluate", "--data", "none"), ("bench",), ("budget",)]
)
@pytest.mark.parametrize(
    ("beam", "bound"), [("0", "or equal to 1"), ("257", "or equal to 256"), ("1000000", "or equal to 256")]
)
def test_commands_name_the_bound(lite_nlp, command, beam, bound):
    code, out, err = lite_nlp(*command, "--beam", beam)
    assert (code, out) == (2, "")
    assert "--beam" in err
    assert bound in err


@pytest.mark.parametrize("beam", [0, 257, 1_000_000])
@pytest.mark.parametrize("function", ["open_translator", "evaluate_model", "bench_model"])
def test_functions_name_the_bound(function, beam):
    options = {"source": "none", "reference": "none"} if function == "evaluate_model" else {}
    with pytest.raises(UsageError, match=f"--beam: expected 1 to 256, found {beam}"):
        getattr(lite_nlp, function)(beam=beam, **options)
