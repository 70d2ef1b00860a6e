"""Tests on the Java virtual machine: what failed is named where it is read, at the end."""

from pathlib import Path

import pytest

pytest.importorskip("tools", reason="the Android demo is not here")

import tools.testing.junit
from tools.base.errors import BuildError
from tools.testing.junit import read_failures, run_junit

REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite tests="3" failures="1" errors="1">
<testcase name="passes" classname="org.example.OneTest" time="0.1"/>
<testcase name="counts up" classname="org.example.OneTest">
<failure message="680" type="AssertionError">at ...</failure>
</testcase>
<testcase name="reads" classname="org.example.OtherTest"><error type="IOException">at ...</error></testcase>
</testsuite>
"""
FAILED = ["OneTest.counts up: AssertionError: 680", "OtherTest.reads: IOException"]


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The build's folder, with a program `java` on the path that writes the report that lies beside it, and fails."""
    for name in ("ANDROID", "BUILD"):
        monkeypatch.setattr(tools.testing.junit, name, tmp_path)
    monkeypatch.setattr(tools.testing.junit, "jars", lambda *_groups: [])
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\nmkdir -p reports/app && cp report.xml reports/app/TEST-one.xml\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def test_failures_and_errors_are_read(tmp_path: Path) -> None:
    (tmp_path / "TEST-one.xml").write_text(REPORT)
    (tmp_path / "TEST-two.xml").write_text("<testsuite/>")
    assert read_failures(tmp_path) == FAILED
    assert read_failures(tmp_path / "missing") == []


def test_a_report_that_a_crash_cut_off_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "TEST-half.xml").write_text(REPORT[:300])
    (tmp_path / "TEST-one.xml").write_text(REPORT)
    half, *whole = read_failures(tmp_path)
    assert half.startswith("TEST-half.xml: expected a whole report, found ")
    assert whole == FAILED


def test_a_suite_that_fails_names_its_tests(build: Path) -> None:
    (build / "report.xml").write_text(REPORT)
    with pytest.raises(BuildError) as failure:
        run_junit("app", "classes", build, properties={})
    assert str(failure.value).splitlines() == ["the tests of app: java ended with 1, expected 0", *FAILED]


def test_an_older_report_is_not_taken_for_this_run(build: Path) -> None:
    (build / "reports/app").mkdir(parents=True)
    (build / "reports/app/TEST-one.xml").write_text(REPORT)
    with pytest.raises(BuildError) as failure:
        run_junit("app", "classes", build, properties={})
    assert str(failure.value) == "the tests of app: java ended with 1, expected 0"
