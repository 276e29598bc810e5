"""``python -m pyzk.server`` is ``pyzk-server``."""

import sys

from .cli import main

sys.exit(main())
