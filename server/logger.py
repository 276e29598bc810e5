"""The server's logger, and the display of text that clients sent.

:mod:`.logs` decides what becomes of the lines.
"""

import logging
from typing import Final

logger: Final = logging.getLogger("pyzk.server")


def escape(text: str) -> str:
    """Escape what a terminal does not print: control characters, marks of direction, odd blanks."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
