"""``helper``: the files of ``examples/`` with which tests in other languages start servers.

If a file exists with other content, nothing is written without ``--overwrite``. In an installation the files
are in ``pyzk/examples`` (``setup.py``). In a clone the files are in a folder beside the folder of this
package.
"""

from __future__ import annotations

from importlib.abc import Traversable
from importlib.resources import files
from pathlib import Path, PurePosixPath

import attrs

from ..arguments import wrong
from ..context import Context
from ..parser import PROG
from ..status import Failure, Status


@attrs.frozen
class _Helper:
    """The files of a language.

    :ivar source: the folder below ``examples/`` in which the files are.
    :ivar target: the default folder for the files.
    :ivar names: the names of the files, which are the same below ``source`` and ``target``.
    :ivar more: more files for each value of ``--with``, by this value.
    """

    source: str
    target: str
    names: tuple[str, ...]
    more: dict[str, tuple[str, ...]] = attrs.field(factory=dict)


def _classes(*names: str) -> tuple[str, ...]:
    return tuple(f"pyzk/{name}.java" for name in names)


HELPERS = {
    "java": _Helper(
        "java/src/main/java",
        "src/test/java",
        _classes("PyzkServer", "PyzkCommand", "PyzkExtension"),
        {
            "curator": _classes(
                "TestingServer", "TestingCluster", "TestingZooKeeperServer", "PretendEnsemble"
            ),
            "embedded": _classes("ZooKeeperServerEmbedded", "EmbeddedByProcess"),
        },
    ),
    "go": _Helper("go", ".", ("pyzktest/pyzktest.go",)),
    "node": _Helper("node", ".", ("pyzk.mjs",)),
}


async def helper(context: Context) -> int:
    """Write the files of a language.

    :raises Failure: a file exists with other content or cannot be written, or the language has no such files.
    """
    options = context.options
    chosen = HELPERS[options.language]
    names = list(chosen.names)
    for kind in options.kinds:
        if kind not in chosen.more:
            raise wrong(f"{PROG} helper", f"--with {kind} is for Java")
        names += chosen.more[kind]
    target = Path(options.folder or chosen.target)
    contents = {target / name: _content(chosen.source, name) for name in names}
    try:
        differing = [path for path, content in contents.items() if _differs(path, content)]
        if differing and not options.overwrite:
            shown = ", ".join(map(str, differing))
            raise Failure(Status.NO, f"nothing was written: --overwrite would replace {shown}")
        for path, content in contents.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            await context.out(str(path), {"path": str(path), "size": len(content)})
    except OSError as error:
        raise Failure(Status.NO, f"cannot write {error.filename}: {error.strerror}") from None
    return 0


def _differs(path: Path, content: bytes) -> bool:
    """Return whether a file exists with other content. The comparison ignores line ends, because git may
    change line ends."""
    return path.exists() and path.read_bytes().replace(b"\r\n", b"\n") != content.replace(b"\r\n", b"\n")


def _content(source: str, name: str) -> bytes:
    return _examples().joinpath(*PurePosixPath(source, name).parts).read_bytes()


def _examples() -> Traversable:
    installed = files("pyzk").joinpath("examples")
    return installed if installed.is_dir() else Path(__file__).resolve().parents[2] / "examples"
