"""What users get, made from this tree: nothing is published from here.

=====================  ==========================================================================
``build``              wheel and source distribution, equal bytes at each build
``single``             the server and its commands as one ``.pyz`` file
``tarball``            that file together with a Python, for machines without one
``sbom``               what a release consists of, as CycloneDX
``recipes``            a Homebrew formula and a conda-forge recipe
``locked``             ``lock.txt``: the exact versions and hashes of what pyzk-server needs
=====================  ==========================================================================

Rule: what is made depends on the tree, on the versions that are installed and on ``SOURCE_DATE_EPOCH``. The
time of day, the order of directories, owners and the umask do not matter. ``docs/install.md`` is for users.
"""
