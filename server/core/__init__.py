"""The state machine: synchronous and deterministic. It touches no socket and no clock, and never waits."""
