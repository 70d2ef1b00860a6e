"""Check that the shrunk program has the classes and members which native code looks up by name.

The shrinker sees no use of them, and the library that does not find one refuses to load.
"""

import re
from collections.abc import Iterable, Mapping

from tools.formats.class_files import ClassFile

__all__ = ["find_missing_names"]

_CLASS = re.compile(r'(\w+) = (?:find_class\(env|\(\*env\)->FindClass\(env), "([^"]+)"\)')
_MEMBER = re.compile(r'Get(?:Static)?(?:Method|Field)ID\(env, (\w+), "([^"]+)", "([^"]+)"\)')
# Of the system, not of the program.
_SYSTEM = ("java/", "android/")


def find_missing_names(classes: Mapping[str, ClassFile], sources: Iterable[str]) -> list[str]:
    """Find what C sources look up and the program has not, a line for each.

    Args:
        classes: Of the program, by name.
        sources: Each of the C files.
    """
    problems = []
    for source in sources:
        named = dict(_CLASS.findall(source))
        problems += [
            f"{name}: expected the class, which native code looks up, found none"
            for name in named.values()
            if not name.startswith(_SYSTEM) and name not in classes
        ]
        for variable, member, descriptor in _MEMBER.findall(source):
            owner = named.get(variable)
            if owner is None:
                problems.append(f"{member}{descriptor}: expected a look-up in a class named before, found {variable}")
            elif owner in classes and (member, descriptor) not in classes[owner].members:
                problems.append(f"{owner}: expected {member}{descriptor}, which native code looks up, found none")
    return problems
