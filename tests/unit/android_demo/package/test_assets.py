"""The package's assets."""

from pathlib import Path

import pytest

import tools.package.assets
from tools.package.assets import list_assets, write_assets


@pytest.fixture(autouse=True)
def no_licences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools.package.assets, "collect_licenses", lambda: "text")


def test_the_models_stand_in_the_order_that_they_are_given_in(tmp_path: Path) -> None:
    bundles = [tmp_path / "second-in-the-alphabet.zip", tmp_path / "first.zip"]
    for bundle in bundles:
        bundle.write_bytes(bundle.name.encode())
    assets = list_assets(bundles)
    assert assets["models/order.txt"] == b"second-in-the-alphabet.zip\nfirst.zip\n"
    assert {assets[f"models/{bundle.name}"] for bundle in bundles} == {bundle.name.encode() for bundle in bundles}
    assert list_assets([]) == {"licenses.txt": b"text"}


def test_a_folder_of_assets_has_nothing_of_an_earlier_one(tmp_path: Path) -> None:
    folder = tmp_path / "assets"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "old.zip").write_bytes(b"old")
    write_assets(folder, [])
    assert [path.name for path in folder.rglob("*")] == ["licenses.txt"]
