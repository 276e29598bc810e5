"""The files of a ZooKeeper server: snapshots and transaction logs (files.md). This package keeps no state.
Only :mod:`.places` opens files; the other modules read and write streams of their callers.

* :mod:`.names`: the names of the files. :mod:`.streams`: gzip, snappy, and the reading of large files piece
  by piece.
* :mod:`.snapshot`, :mod:`.txnlog`, :mod:`.digest`: reading and writing the formats.
* :mod:`.image`: a tree in the form of files, and the effect of the log's entries on it.
* :mod:`.nodes`: the znodes of an image in the form of JSON dumps. :mod:`.writing`: from such znodes to a
  snapshot.
* :mod:`.places`: reading and writing trees at the paths of files.
* :mod:`.restoring`: making one image from the files of a directory, which may have faults.
"""
