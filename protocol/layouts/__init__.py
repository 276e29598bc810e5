"""The znodes of lock libraries: their names, their meaning, and which contender waits for which.

The recipes, ``pyzk locks`` and other inspectors use this one description. The modules do no I/O: a caller
reads directories and passes them to the functions.

* :mod:`.names` reads the name of one child.
* :mod:`.waiting` puts the contenders of one directory in order and says which contender waits for which
  other.
* :mod:`.directories` recognises what a directory is: a lock, a semaphore, an election, a queue ...
* :mod:`.cycles` finds sessions that wait for each other over several directories.
"""

from .cycles import Wait, find_cycles, waits
from .directories import Directory, Layout, Shape, may_be_lock, parts, recognise
from .names import ContenderKind, ContenderName, Library, in_order, number_after, parse
from .waiting import Child, Participant

__all__ = [
    "Child",
    "ContenderKind",
    "ContenderName",
    "Directory",
    "Layout",
    "Library",
    "Participant",
    "Shape",
    "Wait",
    "find_cycles",
    "in_order",
    "may_be_lock",
    "number_after",
    "parse",
    "parts",
    "recognise",
    "waits",
]
