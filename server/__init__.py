"""The coordination server: an engine without I/O, and the shells that put it on a network."""
