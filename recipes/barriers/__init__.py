"""Waiting for each other."""
