"""What all recipes stand on: calls bound to a session, creates that happen once, holds, blocks."""
