"""``pyzk helper``: files for tests in other languages. ``tests/release`` tries it in an installation."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pyzk.cli.main import main
from pyzk.cli.status import Status

ROOT = Path(__file__).parents[2]
CURATOR = {"TestingServer", "TestingCluster", "TestingZooKeeperServer", "PretendEnsemble"}
EMBEDDED = {"ZooKeeperServerEmbedded", "EmbeddedByProcess"}


@pytest.fixture
def helper(capsys: pytest.CaptureFixture[str]) -> Callable[..., list[Path]]:
    """Runs the verb; returns the files that it names."""

    def run(*arguments: str | Path) -> list[Path]:
        assert main(["helper", *map(str, arguments)]) == 0
        return [Path(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.mark.parametrize(("language", "names"), [("go", ["pyzktest/pyzktest.go"]), ("node", ["pyzk.mjs"])])
def test_the_files_are_those_of_the_examples(
    helper: Callable[..., list[Path]], tmp_path: Path, language: str, names: list[str]
) -> None:
    folder = tmp_path / "new" / "folder"
    assert helper(language, folder) == [folder / name for name in names]
    for name in names:
        assert (folder / name).read_bytes() == (ROOT / "examples" / language / name).read_bytes()


def test_java_with_all_that_there_is(
    helper: Callable[..., list[Path]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    few = helper("java")
    assert {path.parent for path in few} == {Path("src/test/java/pyzk")}
    assert {path.stem for path in few} == {"PyzkServer", "PyzkCommand", "PyzkExtension"}
    more = helper("java", "--with", "curator")
    assert {path.stem for path in more} - {path.stem for path in few} == CURATOR
    written = helper("java", "--with", "embedded", "--with", "curator")
    assert {path.stem for path in written} - {path.stem for path in more} == EMBEDDED
    sources = ROOT / "examples/java/src/main/java/pyzk"
    assert {path.name for path in written} == {path.name for path in sources.iterdir()}
    for path in written:
        assert path.read_bytes() == (sources / path.name).read_bytes()


def test_a_file_that_differs_is_kept(
    helper: Callable[..., list[Path]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "pyzk" / "PyzkServer.java"
    mine.parent.mkdir()
    mine.write_text("mine")
    assert main(["helper", "java", str(tmp_path)]) == Status.NO
    assert capsys.readouterr().err == f"pyzk: nothing was written: --overwrite would replace {mine}\n"
    assert [path.name for path in mine.parent.iterdir()] == ["PyzkServer.java"]
    helper("java", tmp_path, "--overwrite")
    assert mine.read_text() != "mine"
    mine.write_bytes(mine.read_bytes().replace(b"\n", b"\r\n"))  # as git does it on Windows
    assert len(helper("java", tmp_path)) == 3


def test_what_makes_no_sense(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for arguments in (["helper"], ["helper", "cobol"], ["helper", "go", str(tmp_path), "--with", "curator"]):
        assert main(arguments) == Status.USAGE
        assert capsys.readouterr().err.startswith("pyzk: ")
    (tmp_path / "file").write_text("")
    assert main(["helper", "go", str(tmp_path / "file")]) == Status.NO
    assert capsys.readouterr().err.startswith("pyzk: cannot write ")
    assert not (tmp_path / "pyzktest").exists()


def test_for_programs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["helper", "node", str(tmp_path), "--json"]) == 0
    size = (ROOT / "examples/node/pyzk.mjs").stat().st_size
    assert json.loads(capsys.readouterr().out) == {"path": str(tmp_path / "pyzk.mjs"), "size": size}
