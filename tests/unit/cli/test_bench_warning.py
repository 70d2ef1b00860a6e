"""What ``bench`` says on stderr, whatever it prints."""

import json
from types import SimpleNamespace

import pytest

from tests.integration.conftest import LiteNlp


@pytest.mark.parametrize("same", [True, False])
def test_json_comes_with_the_warning_too(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, same: bool
) -> None:
    report = SimpleNamespace(as_dict=lambda: {"rows": []}, same_tokens=same)
    monkeypatch.setattr("lite_nlp.cli.bench.bench_model", lambda *_, **__: report)
    done = LiteNlp(capfd, monkeypatch)("bench", "--json")
    assert (done.code, json.loads(done.out)["rows"]) == (0, [])
    assert ("expected the same tokens in all rows, found different ones" in done.err) is not same
