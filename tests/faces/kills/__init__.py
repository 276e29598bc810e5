"""Every recipe, in each face, while leaders die.

A workload (:mod:`.workload`) is what the clients of a recipe do, and what must hold meanwhile and in the end.
:mod:`.run` lets it work in a face while an ensemble (:mod:`.ensembles`) is in trouble.
"""
