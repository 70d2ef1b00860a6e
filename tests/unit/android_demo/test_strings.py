"""The app's texts are there in both languages, with the same places for what is put in."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

RESOURCES = Path(__file__).parents[3] / "android_demo/app/src/main/res"
_ARGUMENT = re.compile(r"%(?:\d+\$)?[sdf]|%%")


def read_texts(folder: str) -> dict[str, dict[str, str]]:
    """Strings and plurals of a language: name to quantity ("" for strings) to text; untranslatable ones left out."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((RESOURCES / folder).glob("*.xml")):
        for element in ET.parse(path).getroot():  # noqa: S314 - our own file
            if element.tag not in ("string", "plurals") or element.get("translatable") == "false":
                continue
            texts = {"": "".join(element.itertext())} if element.tag == "string" else {}
            texts |= {item.get("quantity", ""): "".join(item.itertext()) for item in element.findall("item")}
            assert element.get("name") not in found, f"{path}: {element.get('name')} is there twice"
            found[element.get("name", "")] = texts
    return found


def test_every_text_is_in_both_languages() -> None:
    english, german = read_texts("values"), read_texts("values-de")
    assert len(english) > 100
    assert sorted(english) == sorted(german)


def test_both_languages_have_the_same_quantities_and_arguments() -> None:
    english, german = read_texts("values"), read_texts("values-de")
    for name, texts in english.items():
        assert texts.keys() == german[name].keys(), name
        for quantity, text in texts.items():
            other = german[name][quantity]
            assert sorted(_ARGUMENT.findall(text)) == sorted(_ARGUMENT.findall(other)), f"{name} {quantity}"


@pytest.mark.parametrize("folder", ["values", "values-de"])
def test_arguments_are_numbered_and_quotation_marks_are_typographic(folder: str) -> None:
    for name, texts in read_texts(folder).items():
        for text in texts.values():
            assert not re.search("%[sd]", text), name
            # A straight apostrophe ends a text for aapt2, a straight quotation mark keeps its spaces.
            assert "'" not in text, name
            assert '"' not in text.strip('"'), name


def test_colours_of_both_themes_are_the_same_names_with_enough_contrast() -> None:
    palettes = []
    for folder in ("values", "values-night"):
        root = ET.parse(RESOURCES / folder / "colors.xml").getroot()  # noqa: S314 - our own file
        palettes.append({color.get("name", ""): (color.text or "") for color in root})
    light, dark = palettes
    assert set(dark) <= set(light)
    for palette in (light, {**light, **dark}):
        for name, color in palette.items():
            if name.startswith("on_") and not name.endswith("_secondary"):
                assert contrast(color, palette[name.removeprefix("on_")]) >= 4.5, name
        for ground in ("background", "surface", "navigation"):
            for text in ("on_surface_secondary", "accent", "error", "good"):
                assert contrast(palette[text], palette[ground]) >= 4.5, f"{text} on {ground}"


def contrast(one: str, other: str) -> float:
    """Ratio of the luminances of two colours, 1 to 21, by the Web Content Accessibility Guidelines."""
    first, second = sorted((luminance(one), luminance(other)), reverse=True)
    return (first + 0.05) / (second + 0.05)


def luminance(color: str) -> float:
    """Relative luminance of "#RRGGBB"."""
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
