"""Every recipe, in each package, while leaders die.

A workload (:mod:`.workload`) is what the clients of a recipe do, and what must hold meanwhile and in the end.
:mod:`.run` lets it work in a package while an ensemble (:mod:`.ensembles`) is in trouble.
"""
