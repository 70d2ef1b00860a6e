"""Entry to the build that replaces an Android SDK and its Gradle plugin, for the command line and the suites.

Behind it, `tools.package` has the steps from sources to a signed package and `tools.checks` the checks of the result.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.base.layout import BUILD, MAX_APK_BYTES, PHONE_ABI, SHIPPED_MODELS
from tools.base.processes import say
from tools.base.steps import digest_file
from tools.checks.apk import check_package, check_program
from tools.checks.operators import list_operators
from tools.checks.reproducibility import check_reproducible
from tools.checks.sizes import check_size, list_parts, render_parts, write_parts
from tools.package.assets import list_assets, write_assets
from tools.package.kotlin import MODULES, compile_module, engine_jars
from tools.package.native import GLUE_LIBRARY, ORT_LIBRARY, build_host, java_headers
from tools.package.packing import pack_apk, package_path
from tools.package.resources import link_resources
from tools.package.shrink import make_dex, shrink_program

__all__ = [
    "GLUE_LIBRARY",
    "MODULES",
    "ORT_LIBRARY",
    "build_host",
    "build_package",
    "check_reproducible",
    "compile_module",
    "engine_jars",
    "java_headers",
    "link_resources",
    "list_assets",
    "list_operators",
    "package_path",
    "write_assets",
]


def build_package(abi: str = PHONE_ABI, bundles: Sequence[Path] = SHIPPED_MODELS) -> Path:
    """Build, sign and check the package.

    Args:
        abi: Android's name of the instruction set.
        bundles: The bundles to ship, the default first.

    Returns:
        The package. Beside it is NAME.sizes.json with its parts.

    Raises:
        BuildError: A step failed, a check found something, or the package for phones is too large.
    """
    program = shrink_program()
    check_program(program)
    dex = make_dex(program)
    target = package_path(abi)
    say(f"packing {target.name}")
    with tempfile.TemporaryDirectory(dir=BUILD) as name:
        apk = pack_apk(abi, dex, bundles, Path(name))
        parts = list_parts(apk.packed_bytes, apk.plain_bytes, apk.path.stat().st_size)
        check_package(apk.path, abi)
        if abi == PHONE_ABI:
            check_size(parts, MAX_APK_BYTES)
        apk.path.rename(target)
    digest = digest_file(target)
    sizes = target.with_suffix(".sizes.json")
    write_parts(sizes, parts, abi=abi, sha256=digest, limit_bytes=MAX_APK_BYTES)
    print(f"{render_parts(parts)}\n\n{target}\nsha256 {digest}")
    return target
