"""The face for threads; see __init__.pyi for its types, and :mod:`pyzk.bridge` for how it is made."""

from ..bridge.exports import fill
from .threads import THREADS

fill(globals(), THREADS)
