"""Paths of the build, and the app's identity: package name, versions, API levels, instruction sets."""

from pathlib import Path

__all__ = [
    "ABIS",
    "ANDROID",
    "BUILD",
    "DEPS",
    "EMULATOR_ABI",
    "MAX_APK_BYTES",
    "MIN_SDK",
    "PACKAGE",
    "PHONE_ABI",
    "ROOT",
    "SHARED_DATA",
    "SHIPPED_MODEL",
    "SHIPPED_MODELS",
    "TARGET_SDK",
    "TOOLS",
    "VERSION_CODE",
]

TOOLS = Path(__file__).resolve().parents[1]
ANDROID = TOOLS.parent
ROOT = ANDROID.parent
BUILD = ANDROID / "build"
DEPS = BUILD / "deps"
# The compact bundles that the package ships, one of each direction; the first is the app's default.
SHIPPED_MODELS = tuple(ROOT / "lite_nlp" / "assets" / f"tatoeba-{pair}.zip" for pair in ("en-de", "de-en"))
# The one that the suites run.
SHIPPED_MODEL = SHIPPED_MODELS[0]
# The corpora, where a checkout has them beside it.
SHARED_DATA = ROOT.parent / "shared" / "data"

PACKAGE = "dev.litenlp.app"
VERSION_CODE = 1
MIN_SDK = 26
TARGET_SDK = 35
# Bytes (1000-based megabytes) that the signed APK may have.
MAX_APK_BYTES = 20_000_000
PHONE_ABI, EMULATOR_ABI = "arm64-v8a", "x86_64"
# Android's name of an instruction set = clang's target.
ABIS = {PHONE_ABI: "aarch64-linux-android26", EMULATOR_ABI: "x86_64-linux-android26"}
