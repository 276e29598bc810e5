"""What the page asks for: each answer is bounded, made in turns, and starts no recording of the history."""
