"""Tests of the server, in the folders of its rooms. Those of core need no socket: bytes and the time in,
bytes out."""
