"""Tests of the client: its state machine without sockets, and the whole of it in virtual time."""
