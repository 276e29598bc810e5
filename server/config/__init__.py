"""Configuration: settings, zoo.cfg and its keys, TLS material.

``zoocfg`` reads a file: its syntax is in ``properties``, what stands beside it in ``overrides``, each key by
itself in ``reading`` with the tables of ``zookeys``, several keys together in ``rules`` and ``servers``.
What it finds are values with their givers, ``given``, of which ``settings`` are made.
"""
