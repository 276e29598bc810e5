"""Tests of the server without sockets: bytes and the time in, bytes out."""
