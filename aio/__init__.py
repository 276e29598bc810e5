"""The face for asyncio; see __init__.pyi for its types, and :mod:`pyzk.bridge` for how it is made."""

from ..bridge.exports import fill
from .tasks import TASKS

fill(globals(), TASKS)
