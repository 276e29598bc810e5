"""The program that runs Curator's own tests, without a JVM; and the page that shows what it printed."""

from __future__ import annotations

import re
from pathlib import Path

from ...support import curator_tests

PAGE = Path(__file__).parents[3] / "docs" / "curator-tests.md"
REPORT = """<testsuite time="1.5">
<testcase name="good()"/><testcase name="left()"><skipped/></testcase>
<testcase name="bad()"><failure message="not
so">at org.junit.Assertions(Assertions.java:1)
at a.TestA.b(TestA.java:7)
at a.TestA.c(TestA.java:9)</failure></testcase>
<testcase name="bad(int)[2]"><error type="java.io.IOException"/></testcase>
</testsuite>"""


def test_only_imports_change() -> None:
    source = "package a;\nimport org.apache.curator.test.{};\nimport org.apache.curator.test.{};\n"
    given = source.format("TestingServer", "InstanceSpec")
    assert curator_tests.changed(given, "a") == given.replace(
        "org.apache.curator.test.Testing", "pyzk.Testing"
    )
    base = "package org.apache.curator.test;\nclass BaseClassForTests {}\n"
    imports = "import pyzk.TestingServer;\nimport pyzk.TestingCluster;\n"
    wanted = base.replace("\nclass", f"\n{imports}class")
    assert curator_tests.changed(base, "org.apache.curator.test") == wanted


def test_which_classes_have_tests(tmp_path: Path) -> None:
    source = tmp_path / "TestA.java"
    for text, has_tests in (
        ("public class TestA {\n    @Test\n    void b() {}\n    abstract class C {}\n}\n", True),
        ("public class TestA extends TestBase<String> {}\n", True),
        ("public abstract class TestA {\n    @Test\n    void b() {}\n}\n", False),
        ("public class TestA {}\n", False),
    ):
        source.write_text(text)
        assert curator_tests.is_a_test(source) is has_tests


def test_a_report_is_read(tmp_path: Path) -> None:
    name = "org.apache.curator.framework.recipes.locks.TestA"
    assert "no report" in str(curator_tests.read(name, tmp_path / "report.xml"))
    (tmp_path / "report.xml").write_text(REPORT)
    result = curator_tests.read(name, tmp_path / "report.xml")
    assert result.failures == {"bad": "not so(TestA.java:7)", "bad(int)[2]": "java.io.IOException"}
    assert result.row() == "| locks.TestA | 1 of 3 | `bad`, `bad(int)[2]` |"


def test_the_page_counts_what_it_shows() -> None:
    text = PAGE.read_text()
    rows = re.findall(r"^\| (\S+Test\w+) \| (\d+) of (\d+) \| (.*) \|$", text, re.MULTILINE)
    passed, count = (sum(int(row[column]) for row in rows) for column in (1, 2))
    assert f"{passed} of {count} tests of {len(rows)} classes passed" in text
    for _, good, all_, failed in rows:
        assert failed.count("`") == 2 * (int(all_) - int(good))
