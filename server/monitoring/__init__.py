"""What operators ask for: four-letter words, metrics, the admin server."""
