"""Reserved for the trio client."""
