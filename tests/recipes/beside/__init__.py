"""Our recipes beside those of Curator and of kazoo, at one path."""
