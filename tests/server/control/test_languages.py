"""The examples in Java, Go and Node: their own tests, run as their users would run them."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pyzk.server.testing import EmbeddedServer

from ...support import jvm
from ...support.languages import go_variables, link_node_modules
from ...support.needs import need
from ...support.waiting import PATIENCE

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"

SCENARIOS = {
    "expire a lock holder",
    "a create whose reply is lost",
    "an hour passes for a TTL",
    "a client is cut off and does not know",
    "a partition that lasts",
    "restart empty",
    "seed and compare a tree",
    "snapshot and restore between tests",
    "the timeline in the message of a failing test",
    "an event that comes late",
    "the leader of an ensemble dies",
}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run a command that finds our own on its PATH; returns what it prints."""
    commands = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {name: value for name, value in os.environ.items() if name != "PYZK_URL"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment |= {"PATH": commands} | variables
    with subprocess.Popen(command, cwd=cwd, env=environment, start_new_session=True, **pipes) as process:
        try:
            # The server has the same standard error, so it has ended too.
            output, errors = process.communicate(timeout=PATIENCE)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    assert process.returncode == 0, output + errors
    return str(output)


def plain(names: set[str]) -> set[str]:
    """Names as words, and as identifiers in two languages, without what tells these apart."""
    return {name.replace(" ", "").lower() for name in names}


# --- Node -------------------------------------------------------------------------------------------------


@pytest.fixture
def node_project(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLES / "node", tmp_path, dirs_exist_ok=True)
    link_node_modules(tmp_path)
    return tmp_path


def node_scenarios(project: Path, *flags: str, **variables: str) -> set[str]:
    output = run("node", "--test-reporter=tap", *flags, "pyzk.test.mjs", cwd=project, **variables)
    return set(re.findall(r"^ok \d+ - ([^#\n]+)$", output, re.MULTILINE))


def test_node(node_project: Path) -> None:
    assert node_scenarios(node_project) == SCENARIOS


def test_a_server_that_runs_already(node_project: Path) -> None:
    name = "restart empty"
    with EmbeddedServer() as server:
        server.load({"/mine": "kept"})
        assert server.url is not None
        assert name in node_scenarios(node_project, f"--test-name-pattern={name}", PYZK_URL=server.url)
        server.assert_tree({"/mine": "kept"})
        assert server.history(kind="session") == [], "the test has used a server of its own"


# --- Go ---------------------------------------------------------------------------------------------------


def test_go(tmp_path: Path) -> None:
    variables = go_variables(tmp_path)
    package = tmp_path / "src" / "pyzktest"
    package.symlink_to(EXAMPLES / "go" / "pyzktest")
    output = run("go", "test", "-count=1", "-v", "pyzktest", cwd=package, **variables)
    assert plain(set(re.findall(r"^--- PASS: Test(\w+)", output, re.MULTILINE))) == plain(SCENARIOS)


@pytest.mark.parametrize("folder", ["go", "sweep"])
def test_go_is_written_as_gofmt_writes_it(folder: str, tmp_path: Path) -> None:
    go_variables(tmp_path)
    assert run("gofmt", "-l", ".", cwd=EXAMPLES / folder) == ""


# --- Java -------------------------------------------------------------------------------------------------

JARS = (*jvm.CURATOR, *jvm.CURATOR_TEST, *jvm.JUNIT)


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(jvm.missing(jvm.CURATOR, "javac"))
    need(jvm.missing(jvm.CURATOR_TEST) or jvm.missing(jvm.JUNIT))
    folder = tmp_path_factory.mktemp("java")
    sources = sorted((EXAMPLES / "java").rglob("*.java"))
    strict = ("-Xlint:all,-classfile,-path,-try", "-Werror")
    run(*jvm.tool("javac", *strict, "-d", folder, "-cp", jvm.class_path(JARS), *sources), cwd=folder)
    return folder


def test_java(classes: Path, tmp_path: Path) -> None:
    launcher = ("org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--disable-ansi-colors")
    chosen = ("--select-package=pyzk", "--config=junit.jupiter.execution.parallel.enabled=true")
    # The tree on the screen loses a line now and then while tests run side by side; the report does not.
    shown = ("--details=none", f"--reports-dir={tmp_path}")
    command = jvm.java(*launcher, *chosen, *shown, jars=JARS, folders=(classes,), log_level="off")
    run(*command, cwd=classes)
    ran = [
        case
        for case in ElementTree.parse(tmp_path / "TEST-junit-jupiter.xml").iter("testcase")
        if case.find("skipped") is None
    ]
    passed = {case.attrib["name"].partition("(")[0] for case in ran}
    passed |= {re.split(r"[.$]", case.attrib["classname"])[-1] for case in ran}  # a class for a scenario
    assert plain(passed) >= plain(SCENARIOS)
    assert passed >= {
        "dataAndSessionsSurviveARestart",
        "whileItIsStoppedNoClientCanConnect",
        "itHasThePortAndTheDirectoryThatItIsGiven",
        "anotherServerTakesThePortOfAStoppedOne",
        "aClientGoesOnAtAnotherServer",
        "anotherClusterOfStoppedServersHasTheirData",
        "serversStartOneByOne",
        "aClusterOfOne",
        "anEnsembleWithSettings",
        "aServerThatABuilderHasMade",
        "whatABuilderRefuses",
    }


FAILING = """
package pyzk;

@org.junit.jupiter.api.extension.ExtendWith(PyzkExtension.class)
class Failing {
    @org.junit.jupiter.api.Test
    void fails(PyzkServer server) {
        server.post("/notes", java.util.Map.of("text", "hi"));
        org.junit.jupiter.api.Assertions.assertEquals("ready", "starting");
    }

    @org.junit.jupiter.api.Test
    void failsToo(PyzkServer server) {
        throw new IllegalStateException("mine");
    }
}
"""


@pytest.mark.parametrize("is_on_the_path", [True, False])
def test_a_failure_in_java_keeps_its_type(classes: Path, tmp_path: Path, is_on_the_path: bool) -> None:
    (tmp_path / "Failing.java").write_text(FAILING)
    class_path = jvm.class_path(JARS, classes)
    run(*jvm.tool("javac", "-d", tmp_path, "-cp", class_path, tmp_path / "Failing.java"), cwd=tmp_path)
    launcher = ("org.junit.platform.console.ConsoleLauncher", "--disable-banner", "--disable-ansi-colors")
    chosen = ("--select-class=pyzk.Failing", "--details=tree", "--details-theme=ascii")
    command = jvm.java(*launcher, *chosen, jars=JARS, folders=(classes, tmp_path), log_level="off")
    folders = [str(Path(sys.executable).parent)] if is_on_the_path else []
    java = Path(shutil.which("java") or "").parent
    environment = {"PATH": os.pathsep.join([*folders, str(java)])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    output = done.stdout + done.stderr
    if is_on_the_path:
        assert "org.opentest4j.AssertionFailedError: expected: <ready>" in output
        assert "java.lang.IllegalStateException: mine" in output
        assert output.count("what the server has seen:") >= 2
        assert "## hi" in output
    else:
        assert output.count("no pyzk-server was found: pip install pyzk-server, or name its command") >= 2
        assert "Caused by" not in output
        assert "at pyzk." not in output
        assert "pyzk.PyzkExtension" not in output


@pytest.mark.parametrize("name", ["TestingServer", "TestingCluster", "TestingZooKeeperServer"])
def test_a_class_has_the_methods_of_curators(classes: Path, name: str) -> None:
    names = [f"pyzk.{name}", f"org.apache.curator.test.{name}"]
    output = run(*jvm.tool("javap", "-public", "-cp", jvm.class_path(JARS, classes), *names), cwd=classes)
    for package in ("pyzk", "org.apache.curator.test"):
        output = output.replace(f"{package}.Testing", "Testing")
    ours, theirs = (set(part.splitlines()[1:]) for part in output.split("Compiled from ")[1:])
    if name == "TestingZooKeeperServer":  # a cluster makes them
        theirs = {line for line in theirs if "QuorumConfigBuilder" not in line}
    assert any("close() throws java.io.IOException;" in line for line in theirs)
    assert ours == theirs


def test_a_server_is_built_as_zookeepers(classes: Path) -> None:
    """Release 3.8 has fewer methods than 3.9: ours may have more."""
    package = "org.apache.zookeeper.server.embedded"
    kinds = ("ZooKeeperServerEmbedded", "ZooKeeperServerEmbedded$ZookKeeperServerEmbeddedBuilder")
    for kind in kinds:
        names = [f"pyzk.{kind}", f"{package}.{kind}"]
        output = run(*jvm.tool("javap", "-public", "-cp", jvm.class_path(JARS, classes), *names), cwd=classes)
        output = output.replace(f"{package}.ZooKeeper", "ZooKeeper").replace("pyzk.ZooKeeper", "ZooKeeper")
        ours, theirs = (set(part.splitlines()[1:]) for part in output.split("Compiled from ")[1:])
        assert len(theirs) >= 6
        assert theirs <= ours


def java_of(page: str) -> list[str]:
    """The blocks of Java in a page."""
    text = (ROOT / "docs" / page).read_text()
    return re.findall(r"^```java\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


STUBS = """
import java.util.function.Supplier;
import pyzk.PyzkServer;
import java.io.IOException;
import java.util.Map;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.CreateMode;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.api.extension.RegisterExtension;
import pyzk.PyzkExtension;
import static org.junit.jupiter.api.Assertions.*;

@interface TestConfiguration { boolean proxyBeanMethods(); }
@interface Bean {}
@interface SpringBootTest {}
@interface DynamicPropertySource {}
@interface Autowired {}
@interface Import { Class<?> value(); }
interface DynamicPropertyRegistry { void add(String name, Supplier<Object> value); }
interface DynamicPropertyRegistrar { void accept(DynamicPropertyRegistry registry); }
"""
"""Spring's types, with those of its methods that docs/java.md and docs/how-to/ci.md use."""


def test_what_the_page_about_java_shows_is_compiled(classes: Path, tmp_path: Path) -> None:
    test, field, line, spring = java_of("java.md")
    connect = "    CuratorFramework connect(String hosts) { return null; }"
    test = test.replace("class LockTest {", f"class LockTest {{\n{connect}\n{field}")
    _, older_spring = java_of("how-to/ci.md")
    (tmp_path / "Page.java").write_text(line + STUBS + test + spring + older_spring)
    class_path = jvm.class_path(JARS, classes)
    run(*jvm.tool("javac", "-d", tmp_path, "-cp", class_path, tmp_path / "Page.java"), cwd=tmp_path)
    compiled = {path.stem for path in tmp_path.glob("*.class")}
    assert compiled >= {"ZooKeeperForTests", "LockTest", "OnlyOneLeads"}


SEARCH = """
package pyzk;

class Search {
    public static void main(String[] folders) {
        for (String folder : folders) {
            java.util.Map<String, String> environment = java.util.Map.of("PATH", folder);
            if (folder.contains("=")) {
                environment = java.util.Map.of("PYZK_SERVER", folder.substring(1), "PATH", folders[1]);
            }
            try {
                PyzkCommand.Started started = PyzkCommand.start(environment);
                System.out.println(started.url().startsWith("http://127.0.0.1:"));
            } catch (java.io.IOException error) {
                System.out.println(error.getMessage() + " " + error.getStackTrace().length);
            }
        }
    }
}
"""


def command(folder: Path, name: str, said: str, exit_status: int = 0) -> Path:
    """A program that says that it was run, in a folder of its own; it is ready as pyzk-server is."""
    folder.mkdir(exist_ok=True)
    ready = "" if exit_status else "echo HTTP at http://127.0.0.1:1/"
    (folder / name).write_text(
        f'#!/bin/sh\necho "{said} $1" >> {folder.parent}/log\n{ready}\nexit {exit_status}\n'
    )
    (folder / name).chmod(0o755)
    return folder


def test_where_java_looks_for_the_server(classes: Path, tmp_path: Path) -> None:
    (tmp_path / "Search.java").write_text(SEARCH)
    run(*jvm.tool("javac", "-d", tmp_path, "-cp", classes, tmp_path / "Search.java"), cwd=tmp_path)
    (tmp_path / "pyzk").mkdir(exist_ok=True)
    named = command(tmp_path / "named", "mine", "named") / "mine"
    path = command(tmp_path / "path", "pyzk-server", "path")
    command(path, "uvx", "uvx of path")
    uvx = command(tmp_path / "uvx", "uvx", "uvx")
    pipx = command(tmp_path / "pipx", "pipx", "pipx")
    command(pipx, "uvx", "uvx without network", 1)
    bundled = command(tmp_path / "bundled", "python3", "python")
    empty = tmp_path / "empty"

    def searched(*cases: Path | str) -> list[str]:
        folders = [str(case) for case in cases]
        program = jvm.java("pyzk.Search", *folders, jars=(), folders=(tmp_path, classes))
        return run(*program, cwd=tmp_path).splitlines()

    *found, nothing = searched(f"={named} --x", path, uvx, pipx, bundled)
    assert found == ["true"] * 4
    assert nothing.startswith("no pyzk-server was found: pip install pyzk-server, or ")
    assert nothing.endswith("PYZK_URL 0")
    log = tmp_path / "log"
    ran = ["named --x", "path --port=0", "uvx --quiet", "uvx without network --quiet", "pipx run"]
    assert log.read_text().splitlines() == ran
    log.unlink()

    (tmp_path / "pyzk" / "pyzk-server.pyz").write_text("")
    wrong = f"={named}-not-there"
    refused, path_again, of_file, without_python = searched(wrong, path, bundled, empty)
    assert refused == f"the command in PYZK_SERVER starts no pyzk-server: {named}-not-there 0"
    assert [path_again, of_file] == ["true", "true"]
    assert without_python == nothing
    path_line, file_line = log.read_text().splitlines()
    assert path_line == "path --port=0"
    assert file_line.startswith("python ")
    assert file_line.endswith(".pyz")


# --- all --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "helper", ["java/src/main/java/pyzk/PyzkServer.java", "go/pyzktest/pyzktest.go", "node/pyzk.mjs"]
)
def test_a_helper_is_short(helper: str) -> None:
    """A user reads it before he copies it."""
    lines = (EXAMPLES / helper).read_text().splitlines()
    assert len(lines) <= 130
    assert all(len(line.expandtabs(4)) <= 110 for line in lines)


@pytest.mark.parametrize(
    ("language", "file"),
    [
        ("java", "java/src/test/java/pyzk/PyzkServerTest.java"),
        ("go", "go/pyzktest/pyzktest_test.go"),
        ("js", "node/pyzk.test.mjs"),
    ],
)
def test_what_the_page_shows_is_run(language: str, file: str) -> None:
    page = (ROOT / "docs" / "languages.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shown = [block for block in blocks if not block.startswith("import")]
    assert shown
    for block in shown:
        assert unindented(block) in unindented((EXAMPLES / file).read_text())


def unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())
