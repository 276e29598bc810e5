"""``python -m pyzk.cli`` is ``pyzk``."""

import sys

from .main import main

sys.exit(main())
