"""The data of a server in files, which ``--data`` switches on (files.md).

* :mod:`.directory`: the files. The server overwrites and deletes only its own files, and old files by the
  keys of autopurge.
* :mod:`.building`: from an image of files to a tree, and back.
* :mod:`.journal`, :mod:`.log_writer`: each transaction becomes an entry of a log before its reply leaves.
* :mod:`.snapshots`: a snapshot is written while clients are served.
* :mod:`.storage`: all of that together, for one server.

Without ``--data`` none of these modules is imported.
"""
