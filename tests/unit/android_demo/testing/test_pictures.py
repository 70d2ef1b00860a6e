"""The docs' pictures are made small, and only whole sets replace the old ones."""

from pathlib import Path

import pytest
from PIL import Image

pytest.importorskip("tools", reason="the Android demo is not here")

from tools.base.errors import BuildError
from tools.testing import pictures


def draw(folder: Path, name: str, *, noise: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    picture = (
        Image.effect_noise((400, 400), 100).convert("RGBA") if noise else Image.new("RGBA", (60, 40), (0, 80, 80, 255))
    )
    picture.save(folder / name)
    return folder / name


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of the docs' pictures with an old one, and screens that are "drawn" to tmp_path/build."""
    monkeypatch.setattr(pictures, "BUILD", tmp_path / "build")
    monkeypatch.setattr(pictures, "PICTURES", tmp_path / "docs" / "android")
    draw(tmp_path / "docs" / "android", "old.png")
    return tmp_path


def test_a_picture_keeps_its_look_with_fewer_bytes(tmp_path: Path) -> None:
    source = draw(tmp_path, "screen.png", noise=True)
    size = pictures.shrink_picture(source, tmp_path / "small.png")
    assert size == (tmp_path / "small.png").stat().st_size < source.stat().st_size
    with Image.open(source) as before, Image.open(tmp_path / "small.png") as after:
        pairs = zip(before.convert("L").tobytes(), after.convert("L").tobytes(), strict=True)
        assert max(abs(one - other) for one, other in pairs) <= 8


def test_new_pictures_replace_all_old_ones(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **__: object) -> Path:
        draw(place / "build" / "screenshots" / "docs", "new.png")
        return place / "build" / "screenshots"

    draw(place / "build" / "screenshots" / "docs", "of-an-earlier-run.png")
    monkeypatch.setattr(pictures, "run_app_tests", run)
    pictures.draw_pictures(Path("model.zip"))
    assert [path.name for path in (place / "docs" / "android").iterdir()] == ["new.png"]


@pytest.mark.parametrize("drawn", ["large", "nothing"])
def test_pictures_that_are_too_large_or_missing_leave_the_old_ones(
    place: Path, monkeypatch: pytest.MonkeyPatch, drawn: str
) -> None:
    def run(*_: object, **__: object) -> Path:
        if drawn == "large":
            draw(place / "build" / "screenshots" / "docs", "noise.png", noise=True)
        return place / "build" / "screenshots"

    monkeypatch.setattr(pictures, "run_app_tests", run)
    with pytest.raises(BuildError, match="noise.png of" if drawn == "large" else "found 0 of 0 bytes"):
        pictures.draw_pictures(Path("model.zip"))
    assert [path.name for path in (place / "docs").rglob("*.png")] == ["old.png"]
