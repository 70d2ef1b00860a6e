"""docs/android.md explains the versions of runtimes that the build files and pyproject.toml have."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[3]
ANDROID = ROOT / "android_demo"


def read_table() -> dict[str, list[str]]:
    """The rows of the section "Versions": runtime to its cells, from the one of the exporter on."""
    page = (ROOT / "docs/android.md").read_text()
    section = page.split("### Versions", 1)[1].split("\n## ", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("| ")
    ]
    return {cells[0]: cells[1:] for cells in rows if cells[0]}


def downloads() -> dict[str, dict[str, list[str] | dict[str, str]]]:
    return tomllib.loads((ANDROID / "tools/base/downloads.toml").read_text())


def constraint(name: str) -> str:
    found = re.search(rf"^{name}==(.+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def gradle(file: str, artifact: str) -> str:
    found = re.search(rf'"[\w.]+:{artifact}:([\d.]+)"', (ANDROID / file).read_text())
    assert found is not None
    return found[1]


def npm(name: str) -> str:
    return str(downloads()["npm"][name]["version"])  # type: ignore[index]


def test_executorch() -> None:
    exported, packaged, studio, _ = read_table()["ExecuTorch"]
    assert exported == f"`executorch` {constraint('executorch')}"
    pins = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"executorch=={constraint('executorch')}" in [pin for extra in pins.values() for pin in extra]
    aar = gradle("app/build.gradle.kts", "executorch-android")
    assert studio == f"`executorch-android` {aar}"
    assert packaged == f"{aar}, from `react-native-executorch` {npm('react-native-executorch')}"
    # The library cannot tell: the engine says it, and reports and the log repeat that.
    engine = (ANDROID / "app/src/main/kotlin/dev/litenlp/app/engine/ExecuTorchEngine.kt").read_text()
    assert f'version: String = "{aar}"' in engine


def test_onnx_runtime() -> None:
    exported, packaged, studio, desktop = read_table()["ONNX Runtime"]
    assert exported == f"`onnxruntime` {constraint('onnxruntime')}"
    aar = gradle("app/build.gradle.kts", "onnxruntime-android")
    assert studio == f"`onnxruntime-android` {aar}"
    assert packaged == f"{aar}, from `@siteed/sherpa-onnx.rn` {npm('@siteed/sherpa-onnx.rn')}"
    (artifact,) = downloads()["maven"]["desktop"]
    assert desktop == f"`onnxruntime` {artifact.rpartition(':')[2]}"
    assert gradle("desktop/build.gradle.kts", "onnxruntime") == artifact.rpartition(":")[2]


def test_other_places_refer_to_the_explanation() -> None:
    for file in ("app/build.gradle.kts", "desktop/build.gradle.kts", "README.md"):
        assert re.search(
            r"Versions.{0,40}docs/android\.md|docs/android\.md.{0,40}Versions", (ANDROID / file).read_text()
        ), file
