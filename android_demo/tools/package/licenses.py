"""Licences and notices of all components that ship, as one text that the app shows.

The text is made of sections; each begins with a line of `=`, its title, and another such line.
"""

import dataclasses
import re
import tomllib
import zipfile
from collections.abc import Iterable

from tools.base.errors import BuildError
from tools.base.fetch import jars
from tools.base.layout import ANDROID, ROOT, SHIPPED_MODELS

__all__ = ["Component", "collect_licenses", "find_unlicensed", "read_components", "refer_to_terms"]

_FOLDER = ANDROID / "licenses"
_RULE = "=" * 72
_APACHE = "Apache License, Version 2.0"
_TERMS = re.compile(
    r"TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION.*?END OF TERMS AND CONDITIONS", re.DOTALL
)
_WORD = re.compile(r"[^\W_]+")


@dataclasses.dataclass(frozen=True)
class Component:
    """A third-party component that ships in the app.

    Attributes:
        name: What people call it.
        license: Its SPDX expression.
        copyright: Its notice; empty where the text has it.
        ships: Beginnings of the names of files it is in.
        text: The licence.
    """

    name: str
    license: str
    copyright: str
    ships: tuple[str, ...]
    text: str


def read_components() -> list[Component]:
    """Read the list of components.toml.

    Raises:
        BuildError: An entry lacks something, or its text is missing.
    """
    components = []
    for entry in tomllib.loads((_FOLDER / "components.toml").read_text())["component"]:
        missing = [key for key in ("name", "license", "copyright", "ships", "text") if key not in entry]
        if missing or not (_FOLDER / entry["text"]).is_file():
            what = f"the keys {', '.join(missing)}" if missing else f"the file {entry['text']}"
            raise BuildError(f"components.toml: expected {what} of {entry.get('name')}, found none")
        text = (_FOLDER / entry["text"]).read_text()
        components.append(
            Component(entry["name"], entry["license"], entry["copyright"].strip(), tuple(entry["ships"]), text.strip())
        )
    return components


def find_unlicensed(files: Iterable[str], own: Iterable[str], components: Iterable[Component]) -> list[str]:
    """Names of shipped files that no component covers and that are not our own."""
    covered = tuple(start for component in components for start in component.ships)
    return sorted(name for name in files if not name.startswith(covered) and name not in set(own))


def collect_licenses() -> str:
    """The whole text: list of components, their licences, ONNX Runtime's notices, the data's licences."""
    components = read_components()
    apache = (ROOT / "LICENSE").read_text().strip()
    models = " and ".join(model.stem for model in SHIPPED_MODELS)
    lines = ["Lite NLP: Apache-2.0", f"Models {models}: trained on Tatoeba (CC BY 2.0 FR) and Multi30k"]
    lines += [f"{component.name}: {component.license}" for component in components]
    card = SHIPPED_MODELS[0].with_suffix(".md").read_text()
    data = card.split("## Data and licences", 1)[1].split("\n## ", 1)[0].strip()
    with zipfile.ZipFile(jars("desktop")[0]) as jar:
        notices = jar.read("ThirdPartyNotices.txt").decode("utf-8", "replace").replace("\r\n", "\n").strip()
    sections = [("What is in this app", "\n".join(lines))]
    sections += [(one.name, f"{one.copyright}\n\n{one.text}".strip()) for one in components]
    sections.append(("The models' data", data))
    sections.append((_APACHE, apache))
    sections.append(("Third-party notices of ONNX Runtime", refer_to_terms(notices, apache)))
    return "".join(f"{_RULE}\n{title}\n{_RULE}\n\n{text}\n\n\n" for title, text in sections)


def refer_to_terms(notices: str, apache: str) -> str:
    """Replace copies of the Apache License's terms in the notices by a reference to its own section.

    Args:
        notices: Many licences in one text, which repeats those terms for each work under them.
        apache: The licence with the terms.

    Raises:
        BuildError: The licence has no terms.
    """
    terms = _TERMS.search(apache)
    if terms is None:
        raise BuildError("LICENSE: expected the terms and conditions of the Apache License, found none")
    words = _WORD.findall(terms[0].lower())
    reference = f'TERMS AND CONDITIONS: as under "{_APACHE}", word for word'
    return _TERMS.sub(lambda found: reference if _WORD.findall(found[0].lower()) == words else found[0], notices)
