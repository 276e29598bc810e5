"""The interfaces for operators: four-letter words, metrics and the admin server."""
