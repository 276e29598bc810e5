"""Copies of parts of the tree that are kept up to date."""
