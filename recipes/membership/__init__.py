"""Members of groups, and znodes that are created again when they are gone."""
