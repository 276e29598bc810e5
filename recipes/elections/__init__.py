"""Leaders, and the sharing out of work."""
