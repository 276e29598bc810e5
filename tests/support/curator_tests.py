"""Curator's own tests of its recipes, with the imports of TestingServer and TestingCluster changed.

``python -m tests.support.curator_tests CHECKOUT [PATTERN ...]``, with a checkout of Apache Curator at the
tag of the installed jars (Debian 12: ``apache-curator-5.4.0``). Its sources are copied to a temporary
folder, the imports are changed there, also in the base classes of these tests, and each class runs in a JVM
of its own, one after the other. The result is the table of docs/curator-tests.md. With ``--theirs`` the
imports stay: the same tests with Curator's own servers. Classes that need a library which is not installed
are named, and not run: Debian has ``libmockito-java`` and ``libcommons-math-java``. ``TestCleanState``, with
which many tests close their client, needs Awaitility: a class that closes the client, as the original does
by default, takes its place.
"""

from __future__ import annotations

import argparse
import fnmatch
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

import attrs

from . import jvm

ROOT: Final = Path(__file__).parents[2]
HELPERS: Final = ROOT / "examples/java/src/main/java"
JARS: Final = (*jvm.CURATOR, *jvm.CURATOR_TEST, *jvm.JUNIT, "junit-jupiter-params.jar", "guava.jar")
LIBRARIES: Final = {
    "mockito": ("mockito-core.jar", "byte-buddy.jar", "byte-buddy-agent.jar", "objenesis.jar"),
    "commons.math": ("commons-math.jar",),
    "awaitility": ("awaitility.jar",),
    "assertj": ("assertj-core.jar",),
}
"""What some of the tests need beside Curator and JUnit, and the jars."""
_ALL_JARS: Final = (*JARS, *(jar for jars in LIBRARIES.values() for jar in jars))
_IMPORT = re.compile(
    r"^import org\.apache\.curator\.test\.(Testing(?:Server|Cluster|ZooKeeperServer));", re.MULTILINE
)
_LIMIT: Final = "--config=junit.jupiter.execution.timeout.testable.method.default=120 s"
_CLEAN_STATE: Final = Path("org/apache/curator/framework/imps/TestCleanState.java")
_CLOSING: Final = """
package org.apache.curator.framework.imps;

public class TestCleanState {
    public static void closeAndTestClean(org.apache.curator.framework.CuratorFramework client) {
        org.apache.curator.utils.CloseableUtils.closeQuietly(client);
    }

    public static void test(
            org.apache.curator.framework.CuratorFramework client, java.util.concurrent.Callable<Void> body)
            throws Exception {
        try {
            body.call();
        } finally {
            closeAndTestClean(client);
        }
    }
}
"""
_BASES: Final = ("BaseClassForTests.java", "compatibility/CuratorTestBase.java")


@attrs.frozen
class Result:
    """What became of one class.

    :ivar failures: the message of each test that failed, by name.
    """

    name: str
    tests: int
    failures: dict[str, str]
    seconds: float
    is_over: bool = True

    def row(self) -> str:
        passed = self.tests - len(self.failures)
        failed = ", ".join(f"`{name}`" for name in self.failures) or "-"
        ended = "" if self.is_over else ", then it was ended"
        return f"| {self.name} | {passed} of {self.tests}{ended} | {failed} |"


def changed(text: str, package: str) -> str:
    """Return a source with the imports of our classes."""
    text = _IMPORT.sub(r"import pyzk.\1;", text)
    if package == "org.apache.curator.test":  # beside Curator's classes: it needs no import of these
        ours = "import pyzk.TestingServer;\nimport pyzk.TestingCluster;\n"
        text = re.sub(r"^(package [\w.]+;\n)", rf"\1{ours}", text, count=1, flags=re.M)
    return text


def copied(
    checkout: Path, folder: Path, *, theirs: bool = False, libraries: Collection[str] = LIBRARIES.keys()
) -> tuple[list[Path], list[str]]:
    """Copy the sources; returns their files, and the names of the classes left out for want of a library.

    :param theirs: with the imports that they have.
    :param libraries: those that are not installed.
    """
    tests = checkout / "curator-recipes/src/test/java"
    base = checkout / "curator-test/src/main/java"
    sources = {path.relative_to(tests): path.read_text() for path in sorted(tests.rglob("*.java"))}
    left_out = {path for path, text in sources.items() if any(library in text for library in libraries)}
    names = {path.stem for path in left_out}
    left_out |= {path for path, text in sources.items() if names & set(re.findall(r"extends (\w+)", text))}
    for name in _BASES:
        path = base / "org/apache/curator/test" / name
        sources[path.relative_to(base)] = path.read_text()
    sources[_CLEAN_STATE] = _CLOSING
    for path in sources.keys() - left_out:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        text = sources[path]
        target.write_text(text if theirs else changed(text, ".".join(path.parent.parts)))
    return [folder / path for path in sorted(sources.keys() - left_out)], sorted(
        path.stem for path in left_out
    )


def compiled(sources: Sequence[Path], folder: Path) -> Path:
    """Compile the tests and our classes; returns the folder of the classes."""
    classes = folder / "classes"
    files = map(str, (*sources, *sorted(HELPERS.rglob("*.java"))))
    options = ["-nowarn", "-Xlint:-deprecation", "-d", str(classes), "-cp", jvm.class_path(_ALL_JARS)]
    subprocess.run(jvm.tool("javac", *options, *files), check=True)
    return classes


def is_a_test(source: Path) -> bool:
    text = source.read_text()
    is_abstract = re.search(r"^(?:public )?abstract class", text, re.MULTILINE) is not None
    return (
        not is_abstract
        and re.search(r"^ +@Test|^public class \w+ extends Test\w+", text, re.MULTILINE) is not None
    )


def run(name: str, classes: Path, patience: float) -> Result:
    """Run the tests of one class."""
    reports = classes.parent / "reports" / name
    launcher = ["org.junit.platform.console.ConsoleLauncher", "--disable-banner", f"--reports-dir={reports}"]
    command = jvm.java(
        *launcher, f"--select-class={name}", _LIMIT, jars=_ALL_JARS, folders=(classes,), log_level="off"
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    (classes.parent / "reports").mkdir(exist_ok=True)
    is_over = True
    with open(classes.parent / "reports" / f"{name}.log", "w") as log:
        environment = os.environ | {"PATH": path}
        try:
            subprocess.run(command, env=environment, stdout=log, stderr=log, timeout=patience, check=False)
        except subprocess.TimeoutExpired:
            is_over = False
    return read(name, reports / "TEST-junit-jupiter.xml", is_over)


def read(name: str, report: Path, is_over: bool = True) -> Result:
    """Read a report of JUnit."""
    short = name.removeprefix("org.apache.curator.framework.recipes.")
    if not report.exists():
        return Result(short, 1, {"(all)": "no report"}, 0, is_over)
    suite = xml.etree.ElementTree.parse(report).getroot()
    cases = [case for case in suite.iter("testcase") if case.find("skipped") is None]
    failures = {}
    for case in cases:
        for kind in ("failure", "error"):
            if (found := case.find(kind)) is not None:
                said = found.get("message") or found.get("type") or ""
                said += "".join(re.findall(r" *\(Test\w+\.java:\d+\)", found.text or "")[:1])
                failures[case.get("name", "").removesuffix("()")] = " ".join(said.split())
    return Result(short, len(cases), failures, float(suite.get("time", "0")), is_over)


def absent() -> list[str]:
    """The libraries that are not installed."""
    return [
        name
        for name, jars in LIBRARIES.items()
        if not all(Path(place).exists() for place in jvm.class_path(jars).split(os.pathsep))
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.curator_tests", description=__doc__)
    parser.add_argument("checkout", type=Path, help="of Apache Curator, at the tag of the installed jars")
    parser.add_argument("pattern", nargs="*", default=["*"], help="classes to run, such as TestLeader*")
    parser.add_argument("--theirs", action="store_true", help="with Curator's own servers")
    parser.add_argument(
        "--patience", type=float, default=600, help="seconds for a class, after which its JVM is ended"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="curator-") as place:
        folder = Path(place)
        sources, left_out = copied(
            given.checkout, folder / "sources", theirs=given.theirs, libraries=absent()
        )
        classes = compiled(sources, folder)
        tests = [source for source in sources if is_a_test(source)]
        names = [
            ".".join(source.relative_to(folder / "sources").with_suffix("").parts)
            for source in tests
            if any(fnmatch.fnmatch(source.stem, pattern) for pattern in given.pattern)
        ]
        results = []
        for name in names:
            results.append(result := run(name, classes, given.patience))
            reasons = [f"    {name}: {why[:200]}" for name, why in result.failures.items()]
            print(result.row(), *reasons, sep="\n", file=sys.stderr, flush=True)
    print("| Class | Passed | Failed |\n|---|---|---|")
    print("\n".join(result.row() for result in results))
    count = sum(result.tests for result in results)
    passed = count - sum(len(result.failures) for result in results)
    print(f"\n{passed} of {count} tests passed. Not run: {', '.join(left_out)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
