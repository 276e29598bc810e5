"""Configuration: settings, zoo.cfg and its keys, TLS material.

``zoocfg`` reads a file. ``properties`` has the syntax of zoo.cfg, and ``overrides`` has the keys of
environment variables and ``--set``. ``reading`` reads each key by the tables of ``zookeys``; ``rules`` and
``servers`` read several keys together. The results are values with their sources (``sourced_values``), from
which ``settings`` are made.
"""
