"""The tests, one folder per folder of the source."""
