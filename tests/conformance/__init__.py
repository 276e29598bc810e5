"""One body of tests for two servers: ours and a real Apache ZooKeeper.

The real half needs Debian's package ``zookeeper`` and is skipped without it; ``PYZK_REQUIRE_REAL=1`` makes
its absence a failure. ``HYPOTHESIS_PROFILE=nightly`` has ``test_state_machine.py`` search for long.
"""
