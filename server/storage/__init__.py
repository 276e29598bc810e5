"""The data of a server in files, which ``--data`` switches on (files.md).

* :mod:`.directory`: the files. Nothing is overwritten or deleted but what this server has written itself, or
  what the keys of autopurge say.
* :mod:`.building`: from an image of files to a tree, and back.
* :mod:`.journal`, :mod:`.engine`: each transaction becomes an entry of a log before its reply leaves.
* :mod:`.snapshots`: a snapshot is written while clients are served.
* :mod:`.storage`: all of that together, for one server.

Without ``--data`` nothing of this is imported.
"""
