"""``python -m pyzk`` is ``pyzk``. ``python -m pyzk.server`` is ``pyzk-server``."""

import sys

from .cli.main import main

sys.exit(main())
