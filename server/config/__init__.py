"""Configuration: settings, zoo.cfg and its keys, TLS material.

``zoocfg`` reads a file. ``properties`` has the syntax of zoo.cfg, and ``overrides`` has the keys of
environment variables and ``--set``. ``reading`` reads each single key with the tables of ``zookeys``.
``rules`` and ``servers`` read keys that belong together. These modules return values with their sources
(``sourced_values``). ``settings`` are made from these values.
"""
