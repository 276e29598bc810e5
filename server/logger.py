"""The server's logger. :mod:`.logs` decides how its lines are written."""

import logging
from typing import Final

logger: Final = logging.getLogger("pyzk.server")
