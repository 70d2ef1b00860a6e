"""The shim's jumps to glibc in place of bionic."""

import shutil

import pytest

pytest.importorskip("tools", reason="the Android demo is not here")

from tools.base.processes import run
from tools.testing.shim import _write_jumps


def test_jumps_go_to_the_function_that_fits() -> None:
    wanted = {"malloc": "LIBC", "sysconf": "LIBC", "frexpl": "LIBC", "at": "LIBC_N", "__android_log_write": ""}
    text = _write_jumps("x86_64", wanted, {"sysconf", "__android_log_write"})
    targets = dict(line.removeprefix("jump_").split(": jmp ") for line in text.splitlines() if ": jmp " in line)
    assert targets == {
        "malloc": "malloc@PLT",
        "sysconf": "shim_sysconf@PLT",
        # A long double of Android's has 128 bits.
        "frexpl": "frexpf128@PLT",
        "at": "at@PLT",
        "__android_log_write": "shim___android_log_write@PLT",
    }
    assert ".symver jump_at, at@LIBC_N" in text
    assert "jump___android_log_write" not in text
    assert "frexpl: b frexpl" in _write_jumps("arm64-v8a", {"frexpl": "LIBC"}, set())


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "aarch64-linux-gnu"])
def test_jumps_are_assembly(target: str, tmp_path) -> None:
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    abi = {"x86_64-linux-gnu": "x86_64", "aarch64-linux-gnu": "arm64-v8a"}[target]
    source = tmp_path / "jumps.s"
    source.write_text(_write_jumps(abi, {"malloc": "LIBC", "free": "LIBC_N"}, {"free"}))
    run(["clang", f"--target={target}", "-c", source, "-o", tmp_path / "jumps.o"], what="clang")
