"""Connections and sockets: what carries bytes between clients and the engine."""
