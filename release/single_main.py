"""The start of ``pyzk-server.pyz``: modules that the server needs at once come from one piece of bytecode.

One entry of the file has the code of all modules that are loaded at a start, for one release of Python. It is
smaller than bytecode beside each module, and read at once. Other modules, and other releases of Python,
compile the sources.
"""

import marshal
import sys
import zipimport

_COMMANDS = {"pyzk": "pyzk.cli.main", "pyzk-lock": "pyzk.cli.lock", "pyzk-server": "pyzk.server.app.cli"}
_ARCHIVE = str(__loader__.archive)  # type: ignore[name-defined]


def _compiled() -> dict[str, bytes]:
    magic = zipimport._bootstrap_external.MAGIC_NUMBER.hex()  # type: ignore[attr-defined]
    try:
        found: dict[str, bytes] = marshal.loads(__loader__.get_data(f"{_ARCHIVE}/bytecode/{magic}"))  # type: ignore[name-defined]
    except OSError:
        return {}
    return found


class Importer(zipimport.zipimporter):
    """As ``zipimporter``, with code that is compiled already."""

    codes = _compiled()

    def get_code(self, fullname: str):  # type: ignore[no-untyped-def]
        code = self.codes.get(fullname)
        return super().get_code(fullname) if code is None else marshal.loads(code)

    def get_filename(self, fullname: str) -> str:
        if fullname not in self.codes:
            return super().get_filename(fullname)
        end = "/__init__.py" if self.is_package(fullname) else ".py"
        return f"{self.archive}/{self.prefix}{fullname.rpartition('.')[2]}{end}"


def main() -> int:
    """Run the command that the first argument names: ``pyzk-server`` unless it is one of ours."""
    sys.path_hooks.insert(0, Importer)
    sys.path_importer_cache.pop(_ARCHIVE, None)
    name = sys.argv[1] if sys.argv[1:2] and sys.argv[1] in _COMMANDS else ""
    if name:
        del sys.argv[1]
    module = __import__(_COMMANDS[name or "pyzk-server"], fromlist=["main"])
    status: int = module.main()
    return status


if __name__ == "__main__":
    sys.exit(main())
