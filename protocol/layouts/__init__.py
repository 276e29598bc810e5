"""The znodes of lock libraries: the names and the meaning of the znodes, and which contender waits for which
other contender.

The recipes, ``pyzk locks`` and other inspectors use this one description. The modules do no I/O: a caller
reads directories and passes the directories to the functions.

* :mod:`.names` reads the name of one child.
* :mod:`.waiting` sorts the contenders of one directory, and says which contender waits for which other
  contender.
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
