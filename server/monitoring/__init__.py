"""The operator's side: four-letter words, metrics, the admin server."""
