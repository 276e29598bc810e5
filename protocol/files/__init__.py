"""The files of a ZooKeeper server: snapshots and transaction logs (files.md). This package keeps no state.
Only :mod:`.places` opens files; the other modules read and write streams of their callers.

* :mod:`.names`: the names of the files. :mod:`.streams`: gzip, snappy, and the reading of large files piece
  by piece.
* :mod:`.snapshot`, :mod:`.txnlog`, :mod:`.digest`: reading and writing the formats.
* :mod:`.image`: a tree in the form of files, and the effect of log entries on the tree.
* :mod:`.nodes`: the znodes of an image in the form of JSON dumps. :mod:`.writing`: a snapshot from znodes in
  this form.
* :mod:`.places`: reading and writing trees at the paths of files.
* :mod:`.restoring`: one image from the files of a directory. The files may have faults.
"""
