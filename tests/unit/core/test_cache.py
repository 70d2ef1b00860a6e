from pathlib import Path

import pytest

from lite_nlp.core.cache import cache_folder


def test_the_folder_is_where_the_system_keeps_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LITE_NLP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / ".cache" / "lite-nlp"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "lite-nlp"
    monkeypatch.setenv("LITE_NLP_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"


@pytest.mark.parametrize("name", ["LITE_NLP_CACHE", "XDG_CACHE_HOME"])
def test_a_variable_set_to_nothing_is_not_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    for other in ("LITE_NLP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv(name, "")
    assert cache_folder() == tmp_path / ".cache" / "lite-nlp"
