"""Configuration: settings, zoo.cfg and its keys, TLS material."""
