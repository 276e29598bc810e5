"""The data of a server in files, which ``--data`` switches on (files.md).

* :mod:`.directory`: the files. The server overwrites and deletes only its own files. The keys of autopurge
  let it delete old files.
* :mod:`.building`: from an image of files to a tree, and back.
* :mod:`.journal`, :mod:`.log_writer`: each transaction becomes an entry of a log before its reply is sent.
* :mod:`.snapshots`: a snapshot is written while clients are served.
* :mod:`.storage`: all these parts together, for one server.

Without ``--data`` none of these modules is imported.
"""
