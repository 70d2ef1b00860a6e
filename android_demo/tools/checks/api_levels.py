"""Uses of Android APIs that the oldest supported system lacks, or that are not public.

The platform's jar that the app is compiled against has hidden and newer members too, so the compiler says nothing. What
is not in the public API of the oldest system must be listed in api_uses.toml with the class that asks for the system's
version first. A member that is inherited counts by where it is declared, whatever class the call names.
"""

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from tools.base.errors import BuildError
from tools.base.layout import MIN_SDK
from tools.formats.class_files import ClassFile, Reference
from tools.formats.serialized import ApiClass

__all__ = ["Allowed", "find_api_problems", "find_newer_uses", "find_reflection", "read_allowed", "read_reflecting"]

_ALLOWED_FILE = Path(__file__).with_name("api_uses.toml")
_VERSION = Reference("android/os/Build$VERSION", "SDK_INT", "I")


@dataclasses.dataclass(frozen=True)
class Allowed:
    """Newer APIs that a class may use after checking the system's version.

    Attributes:
        user: Internal name of the class; classes nested in it may make them too.
        api: Level that has all of them.
        uses: Classes (which stand for all their members) and members, as `Reference` prints them.
    """

    user: str
    api: int
    uses: tuple[str, ...]


def read_allowed(path: Path = _ALLOWED_FILE) -> list[Allowed]:
    """Read the list of allowed uses.

    Raises:
        BuildError: An entry is not of the expected form.
    """
    entries = tomllib.loads(path.read_text()).get("guarded", [])
    try:
        return [Allowed(str(one["class"]), int(one["api"]), tuple(map(str, one["uses"]))) for one in entries]
    except (KeyError, TypeError, ValueError) as error:
        raise BuildError(f"{path}: expected class, api and uses in each entry, found one with {error}") from error


def read_reflecting(path: Path = _ALLOWED_FILE) -> set[str]:
    """Read the classes that may open members by reflection."""
    return {str(one["class"]) for one in tomllib.loads(path.read_text()).get("reflection", [])}


def find_reflection(classes: Mapping[str, ClassFile], allowed: set[str]) -> list[str]:
    """Differences between the classes of ours that open members by reflection and those allowed to, a line for each."""
    found = {
        one.name
        for one in classes.values()
        if one.name.startswith("dev/litenlp/") and any(use.name == "setAccessible" for use in one.references)
    }
    problems = [f"{name} opens members by reflection, which hidden ones are reached by" for name in found - allowed]
    problems += [
        f"api_uses.toml allows {name} to open members by reflection, which it does not" for name in allowed - found
    ]
    return sorted(problems)


def find_newer_uses(
    classes: Mapping[str, ClassFile], api: Mapping[str, ApiClass]
) -> Iterator[tuple[ClassFile, str, str]]:
    """Find uses of classes and members that an API lacks.

    Args:
        classes: The program.
        api: The API's classes.

    Yields:
        The class that uses it, the use (a class or a member), and the class it is of.
    """
    for one in classes.values():
        for name in sorted(one.class_references):
            if name not in classes and name not in api:
                yield one, name, name
        for reference in sorted(one.references):
            # Arrays have what Object has.
            if not reference.owner.startswith("[") and not _has(classes, api, reference):
                yield one, str(reference), reference.owner


def _has(classes: Mapping[str, ClassFile], api: Mapping[str, ApiClass], reference: Reference) -> bool:
    signature = f"{reference.name}{'' if reference.is_method else '#'}{reference.descriptor}"
    # Interfaces inherit from no class, but calls of Object's members may name them.
    waiting, seen = [reference.owner, "java/lang/Object"], set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        own, platform = classes.get(name), api.get(name)
        if own and (reference.name, reference.descriptor) in own.members:
            return True
        if platform and signature in platform.members:
            return True
        for known in (own, platform):
            if known:
                waiting += [parent for parent in (known.super_name, *known.interfaces) if parent]
    return False


def find_api_problems(
    classes: Mapping[str, ClassFile],
    oldest: Mapping[str, ApiClass],
    newest: Mapping[str, ApiClass],
    newest_level: int,
    allowed: list[Allowed],
) -> list[str]:
    """Find faults in the program's uses of Android, a line for each.

    Args:
        classes: The program as it ships.
        oldest: Public API of the oldest system.
        newest: Public API of the newest level that is known.
        newest_level: That level.
        allowed: Uses that are allowed.
    """
    public = set(oldest) | set(newest)
    problems: list[str] = []
    needed: set[tuple[str, str]] = set()
    for one, use, owner in find_newer_uses(classes, oldest):
        entries = [
            entry
            for entry in allowed
            if f"{one.name}$".startswith(f"{entry.user}$") and (use in entry.uses or owner in entry.uses)
        ]
        if not entries:
            problems.append(
                f"{one.name} uses {use}, which API {MIN_SDK} does not have (api_uses.toml lists guarded uses)"
            )
            continue
        entry = entries[0]
        needed.update((entry.user, name) for entry in entries for name in (use, owner) if name in entry.uses)
        if not _asks_version(classes, one.name):
            problems.append(f"{one.name} uses {use} of API {entry.api}, but never reads Build.VERSION.SDK_INT")
        if entry.api <= newest_level and not _is_public(classes, newest, public, one, use):
            problems.append(f"{one.name} uses {use}, which is not in the public API {newest_level}: it is hidden")
    unused = sorted({(entry.user, use) for entry in allowed for use in entry.uses} - needed)
    return problems + [f"api_uses.toml allows {user} to use {use}, which it does not" for user, use in unused]


def _asks_version(classes: Mapping[str, ClassFile], name: str) -> bool:
    """Whether the class, or the one it is nested in, reads the system's version."""
    outer = name.split("$")[0]
    return any(_VERSION in classes[one].references for one in {name, outer} if one in classes)


def _is_public(
    classes: Mapping[str, ClassFile], api: Mapping[str, ApiClass], public: set[str], one: ClassFile, use: str
) -> bool:
    reference = next((reference for reference in one.references if str(reference) == use), None)
    return use in public if reference is None else _has(classes, api, reference)
