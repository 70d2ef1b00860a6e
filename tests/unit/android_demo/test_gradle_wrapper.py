"""The Gradle wrapper is Gradle's own, and fetches a distribution that is verified and new enough."""

import hashlib
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ANDROID = Path(__file__).parents[3] / "android_demo"
WRAPPER = ANDROID / "gradle" / "wrapper"
# Published by Gradle for the wrapper of its versions 8.14 to 8.14.3.
_JAR_SHA256 = "7d3a4ac4de1c32b59bc6a4eb8ecb8e612ccd0cf1ae1e99f66902da64df296172"
# The oldest Gradle that the Android plugin takes, by the plugin's version.
_OLDEST_GRADLE = {"8.13": (8, 13)}


def read_properties() -> dict[str, str]:
    lines = (WRAPPER / "gradle-wrapper.properties").read_text().splitlines()
    return {key: value.replace("\\:", ":") for key, value in (line.split("=", 1) for line in lines)}


def test_the_jar_is_the_one_that_gradle_publishes() -> None:
    assert hashlib.sha256((WRAPPER / "gradle-wrapper.jar").read_bytes()).hexdigest() == _JAR_SHA256


def test_the_distribution_is_verified_and_new_enough_for_the_android_plugin() -> None:
    properties = read_properties()
    assert re.fullmatch("[0-9a-f]{64}", properties["distributionSha256Sum"])
    version = re.search(r"/gradle-([\d.]+)-bin\.zip$", properties["distributionUrl"])
    assert version is not None
    plugin = re.search(
        r'"com\.android\.application"\) version "(\d+\.\d+)', (ANDROID / "settings.gradle.kts").read_text()
    )
    assert plugin is not None
    assert tuple(map(int, version[1].split("."))) >= _OLDEST_GRADLE[plugin[1]]


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java")
def test_the_script_finds_its_jar(tmp_path: Path) -> None:
    """A copy whose distribution is a file that is not there fails with the wrapper's own message, not the shell's."""
    shutil.copy(ANDROID / "gradlew", tmp_path)
    shutil.copytree(WRAPPER, tmp_path / "gradle" / "wrapper")
    missing = tmp_path / "gradle-0-bin.zip"
    properties = tmp_path / "gradle" / "wrapper" / "gradle-wrapper.properties"
    lines = properties.read_text().splitlines()
    kept = [line for line in lines if not line.startswith("distributionUrl")]
    properties.write_text("\n".join([*kept, f"distributionUrl={missing.as_uri()}"]))
    command = ["sh", str(tmp_path / "gradlew"), "--version", "-g", str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert str(missing) in done.stdout + done.stderr
    assert "org.gradle.wrapper" in done.stdout + done.stderr
