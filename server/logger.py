"""The server's logger; :mod:`.logs` decides what becomes of its lines."""

import logging
from typing import Final

logger: Final = logging.getLogger("pyzk.server")
