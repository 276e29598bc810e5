"""Members of groups, and znodes that are kept."""
