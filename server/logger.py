"""The logger of the server, which all its rooms share; :mod:`.logs` decides what becomes of its lines."""

import logging
from typing import Final

logger: Final = logging.getLogger("pyzk.server")
