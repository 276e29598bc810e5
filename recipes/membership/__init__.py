"""Who is there, and znodes that are kept in being."""
