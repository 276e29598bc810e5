"""Numbers and values that many share."""
