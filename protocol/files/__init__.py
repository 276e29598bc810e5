"""The files of a ZooKeeper server: snapshots and transaction logs (files.md). No state. No I/O except on
streams that callers have opened, and in :mod:`.places`.

* :mod:`.names`: which file is which. :mod:`.streams`: gzip, snappy, and the reading of large files piece by
  piece.
* :mod:`.snapshot`, :mod:`.txnlog`, :mod:`.digest`: the formats, read and written.
* :mod:`.image`: a tree as files have it, to which the entries of a log are applied.
* :mod:`.nodes`: its znodes in the form of JSON dumps. :mod:`.writing`: from these to a snapshot.
* :mod:`.places`: trees by the paths of files.
* :mod:`.restoring`: from the files of a directory to one image, with all faults that files may have.
"""
