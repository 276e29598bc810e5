"""``python -m pyzk.recipes.command`` is ``pyzk-lock``."""

import sys

from . import main

sys.exit(main())
