"""``python -m pyzk.server`` is ``pyzk-server``."""

import sys

from .app.cli import main

sys.exit(main())
