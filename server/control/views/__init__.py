"""The answers for the page: each is bounded, made in turns, and starts no recording of the history."""
