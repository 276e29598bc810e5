"""``python -m pyzk.cli.lock`` is ``pyzk-lock``."""

import sys

from . import main

sys.exit(main())
