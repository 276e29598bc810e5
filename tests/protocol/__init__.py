"""Tests of what both sides say on the wire."""
