"""The data of a server in files, which ``--data`` switches on (files.md).

* :mod:`.directory`: the files. The server overwrites and deletes only its own files. The server also deletes
  old files if the keys of autopurge say so.
* :mod:`.building`: makes a tree of znodes from an image of the files.
* :mod:`.journal`, :mod:`.log_writer`: write each transaction to a log before its reply is sent.
* :mod:`.snapshots`: writes a snapshot while clients are served.
* :mod:`.storage`: uses all these modules for one server.

Without ``--data`` none of these modules is imported.
"""
