"""Locks of all kinds, and the engine below them."""
