"""Where everything lies, and the figures that name the app."""

from pathlib import Path

__all__ = [
    "ABIS",
    "ANDROID",
    "BUILD",
    "DEPS",
    "MAX_APK_BYTES",
    "MIN_SDK",
    "PACKAGE",
    "ROOT",
    "SHARED_DATA",
    "TARGET_SDK",
    "TOOLS",
    "VERSION_CODE",
]

TOOLS = Path(__file__).resolve().parent
ANDROID = TOOLS.parent
ROOT = ANDROID.parent
BUILD = ANDROID / "build"
DEPS = BUILD / "deps"
# The corpora, where a checkout has them beside it.
SHARED_DATA = ROOT.parent / "shared" / "data"

PACKAGE = "dev.litenlp.app"
VERSION_CODE = 1
MIN_SDK = 26
TARGET_SDK = 35
# Bytes (1000-based megabytes) that the signed APK may have.
MAX_APK_BYTES = 20_000_000
# Android's name of an instruction set = clang's target.
ABIS = {"arm64-v8a": "aarch64-linux-android26", "x86_64": "x86_64-linux-android26"}
