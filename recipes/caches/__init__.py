"""Copies of the tree that follow it."""
